/* What changes a fleet in Redis: each is one Lua script, which the server runs as a whole or not at
   all. Under `runnel:{GROUP}:`, their one key, there are

     fleet      hash: stream, partitions, every, as the first daemon had them; digest, likewise,
                with the form of all this: "runnel 2: DIGEST"; version, of all that decides who has
                what; claim, the newest claim's number; round, the open round; since, when the
                first daemon arrived there (ms); time, of the newest renewal (ms)
     changes    sorted set: "pPARTITION" or "dNAME", by the version of its newest change
     leases     sorted set: a member's name, by when its lease ends (ms, the server's clock)
     ids        hash: name -> the id of the daemon that has it
     runs       hash: name -> the run of its newest daemon: one life of a process. That it is
                another's by now says that a copy of the daemon's state directory is in use
     daemons    hash: name -> what it says of itself
     draining   set: names
     owners     hash: partition -> "CLAIM NAME"; nobody's: "CLAIM "
     holds      hash: name -> how many partitions it has, unless none
     offsets    hash: partition -> "EPOCH SEQUENCE LEARNED STREAMS SERIAL CLAIM": what is committed;
                the last two say by which commit
     ended      hash: claim -> "EPOCH SEQUENCE PARTITION", or "-" where nothing was committed;
                older versions write no partition
     arrived    set: names, in the open round
     arrivals   hash: name -> "SERIAL ROUND", its newest one
     awaited    set: members that have a partition, and have neither arrived nor passed
     closed     hash: round -> the names in it
     began:PARTITION                 sorted set: "CLAIM EPOCH SEQUENCE" or "CLAIM -", by the claim:
                                     what was committed when it began, of the newest 100. A server
                                     that loses what it had answered gives no claim's number again:
                                     each is at least its clock's, in us
     states:PARTITION                hash: stream -> state
     states:PARTITION:CLAIM:SERIAL   the same, staged; "": the stream is forgotten
     parameters:ROUND:NAME

   Before "runnel 2: " there was a form without `every`, `changes`, `holds` and `awaited`, whose
   states stayed where they were staged: SCRIPT_JOIN makes this one of it. */
#ifndef RUNNEL_FLEET_SCRIPTS_H
#define RUNNEL_FLEET_SCRIPTS_H

/* Their arguments, and what they answer, stand above each. */
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

/* What stands before each of them. Damage that they find ends a script with an error. */
extern const char fleet_script_words[];

#endif
