/* Lua scripts that change a fleet in Redis; the server runs each as a whole or not at all. Their
   keys begin with `runnel:{GROUP}:`.

   fleet: hash. stream, partitions, every: the first daemon's settings; digest: "runnel 2: DIGEST",
   where 2 is the version of these keys; version: of members and owners; claim: the newest claim;
   round: the open round; since: the first arrival in it (ms); time: the newest renewal (ms).
   changes: sorted set. "pPARTITION" or "dNAME", by the version of the newest change.
   leases: sorted set. Member, by the end of its lease (ms, the server's clock).
   ids: hash. Name -> ID of the daemon.
   runs: hash. Name -> run of the newest process. If it is not the daemon's own, a copy of its state
   directory is in use.
   daemons: hash. Name -> the daemon's report about itself.
   draining: set of names.
   owners: hash. Partition -> "CLAIM NAME"; without an owner "CLAIM ".
   holds: hash. Name -> number of partitions, if any.
   offsets: hash. Partition -> "EPOCH SEQUENCE LEARNED STREAMS SERIAL CLAIM"; the last two identify
   the commit.
   ended: hash. Claim -> "EPOCH SEQUENCE PARTITION", or "-" without a commit; older versions write
   no partition.
   arrived: set of names in the open round.
   arrivals: hash. Name -> "SERIAL ROUND" of the newest arrival.
   awaited: set. Owners of partitions that have neither arrived nor passed.
   closed: hash. Round -> its members.
   began:PARTITION: sorted set. "CLAIM EPOCH SEQUENCE" or "CLAIM -", by claim: the commit at its
   beginning, for the newest 100. Claims are at least the server's clock in us, so that a server
   that has lost data does not repeat a number.
   states:PARTITION: hash. Stream -> state.
   states:PARTITION:CLAIM:SERIAL: hash. Staged states; "" deletes the stream.
   parameters:ROUND:NAME: string.

   An older version had no "runnel 2: ", `every`, `changes`, `holds` and `awaited`, and kept states
   where they were staged. SCRIPT_JOIN converts it. */
#ifndef RUNNEL_FLEET_SCRIPTS_H
#define RUNNEL_FLEET_SCRIPTS_H

/* fleet_scripts.c describes the arguments and replies of each script. */
enum fleet_script {
    SCRIPT_JOIN,
    SCRIPT_RENEW,
    SCRIPT_LEAVE,
    SCRIPT_LOOK,
    SCRIPT_ENDED,
    SCRIPT_TAKE,
    SCRIPT_COMMIT,
    SCRIPT_ARRIVE,
    SCRIPT_PASS,
    SCRIPT_ROUND,
    SCRIPT_DRAIN,
    SCRIPT_REBALANCE,
    SCRIPT_STATES,
    FLEET_SCRIPTS
};

extern const char *const fleet_script_texts[FLEET_SCRIPTS];

/* Lua functions before each script. A script ends with an error if it finds damaged data. */
extern const char fleet_script_words[];

#endif
