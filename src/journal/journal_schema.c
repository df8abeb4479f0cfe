/* The tables of the file, as SQL. docs/reliability.md explains them. */
#include "journal_internal.h"

const char journal_tables[] =
    "CREATE TABLE journal ("
    " id INTEGER PRIMARY KEY CHECK (id = 1),"
    " name TEXT NOT NULL, digest TEXT NOT NULL, sync TEXT NOT NULL,"
    " oldest INTEGER NOT NULL, newest INTEGER NOT NULL, streams INTEGER NOT NULL,"
    " crc INTEGER NOT NULL);"
    "CREATE TABLE blocks ("
    " last INTEGER PRIMARY KEY, count INTEGER NOT NULL,"
    " about TEXT NOT NULL, data BLOB NOT NULL, crc INTEGER NOT NULL, kinds INTEGER NOT NULL);"
    "INSERT INTO journal VALUES (1, '', '', '', 1, 0, 0, 0);";

const char journal_commands[] =
    "CREATE INDEX blocks_with_commands ON blocks (last) WHERE " JOURNAL_HAS_COMMAND ";";

/* Which streams of which producers have been idle longest, the index says. */
const char journal_streams[] =
    "CREATE TABLE streams ("
    " key BLOB NOT NULL, producer INTEGER NOT NULL, epoch INTEGER NOT NULL,"
    " sequence INTEGER NOT NULL, position INTEGER NOT NULL, time INTEGER NOT NULL,"
    " crc INTEGER NOT NULL, PRIMARY KEY (key, producer)) WITHOUT ROWID;"
    "CREATE INDEX streams_by_position ON streams (position);";

const char journal_places[] =
    "CREATE TABLE IF NOT EXISTS places ("
    " partition TEXT PRIMARY KEY, epoch INTEGER NOT NULL, sequence INTEGER NOT NULL,"
    " count INTEGER NOT NULL, position INTEGER NOT NULL, crc INTEGER NOT NULL) WITHOUT ROWID;";

/* The journal for people: its own programs read blocks. */
const char journal_view[] =
    "CREATE VIEW entries AS"
    " WITH fields AS ("
    "  SELECT last - count + 1 + key AS position, data,"
    "  json_extract(value, '$[0]') AS time, json_extract(value, '$[1]') AS kind,"
    "  1 + json_extract(value, '$[2]') AS at, json_extract(value, '$[3]') AS key_size,"
    "  json_extract(value, '$[4]') AS x_size, json_extract(value, '$[5]') AS y_size,"
    "  json_extract(value, '$[6]') AS steps, json_extract(value, '$[7]') AS flags,"
    "  json_extract(value, '$[8]') AS epoch, json_extract(value, '$[9]') AS sequence,"
    "  json_extract(value, '$[10]') AS stamp,"
    "  ifnull(json_extract(value, '$[11]'), 0) AS producer,"
    "  json_extract(value, '$[10]') >> 52 & 2047 AS exponent,"
    "  (json_extract(value, '$[10]') & 4503599627370495) + 4503599627370496 AS mantissa"
    "  FROM blocks, json_each(about))"
    " SELECT position, time / 1e6 AS time, kind,"
    "  CASE kind WHEN 1 THEN substr(data, at, key_size) END AS stream, epoch, sequence,"
    "  CASE WHEN exponent BETWEEN 1013 AND 1075 THEN mantissa * 1.0 / (1 << 1075 - exponent)"
    "   WHEN exponent BETWEEN 1076 AND 1137 THEN mantissa * 1.0 * (1 << exponent - 1075)"
    "   END * CASE WHEN stamp < 0 THEN -1 ELSE 1 END AS stamp,"
    "  flags, steps, CASE kind WHEN 1 THEN substr(data, at + key_size, x_size) END AS x,"
    "  CASE WHEN y_size NOT NULL THEN substr(data, at + key_size + x_size, y_size) END AS y,"
    "  CASE WHEN kind > 1 THEN CAST(substr(data, at, x_size - 1) AS TEXT) END AS command,"
    "  CASE WHEN sequence NOT NULL THEN producer END AS producer"
    " FROM fields";
