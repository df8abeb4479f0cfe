/* What changes a fleet in Redis: each is one Lua script, which the server runs as a whole or not at
   all. Under `runnel:{GROUP}:`, their one key, there are

     fleet      hash: stream, partitions, digest, as the first daemon had them; version, of all that
                decides who has what; claim, the newest claim's number; round, the open round, and
                since, when the first daemon arrived there (ms)
     leases     sorted set: a member's name, by when its lease ends (ms, the server's clock)
     ids        hash: name -> the id of the daemon that has it
     daemons    hash: name -> what it says of itself
     draining   set: names
     owners     hash: partition -> "CLAIM NAME"; nobody's: "CLAIM "
     offsets    hash: partition -> "EPOCH SEQUENCE LEARNED STREAMS SERIAL CLAIM": what is committed;
   the last two name the states, "0 0": none ended      hash: claim -> "EPOCH SEQUENCE", or "-"
   where nothing was committed states:PARTITION:CLAIM:SERIAL   hash: stream -> state arrived    set:
   names, in the open round closed     hash: round -> the names in it parameters:ROUND:NAME */
#ifndef RUNNEL_FLEET_SCRIPTS_H
#define RUNNEL_FLEET_SCRIPTS_H

/* Their arguments, and what they answer, stand above each. */
enum fleet_script {
    SCRIPT_JOIN,
    SCRIPT_RENEW,
    SCRIPT_LEAVE,
    SCRIPT_LOOK,
    SCRIPT_TAKE,
    SCRIPT_COMMIT,
    SCRIPT_ARRIVE,
    SCRIPT_ROUND,
    SCRIPT_DRAIN,
    SCRIPT_REBALANCE,
    FLEET_SCRIPTS
};

extern const char *const fleet_script_texts[FLEET_SCRIPTS];

/* What stands before each of them. */
extern const char fleet_script_words[];

#endif
