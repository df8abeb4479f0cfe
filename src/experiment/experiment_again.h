/* Results that others are to replace, and their streams: they are kept until the others have begun,
   with all streams recorded. Until then a failure, a kill or a loss of power brings them back.

   DIRECTORY/before has them. It is made whole under the name before.part, and given back or deleted
   under another name, too: so each of these names says what is to be done with it. */
#ifndef RUNNEL_EXPERIMENT_AGAIN_H
#define RUNNEL_EXPERIMENT_AGAIN_H

struct error;

/* Set results.sqlite and streams/ aside. -1 (EX_IOERR): they are where they were. */
int again_set_aside(const char *directory, struct error *error);

/* What is set aside takes its place again, and what took its place is deleted. Nothing happens
   where nothing is. Also to be called before anything else is done in a directory. -1 (EX_IOERR).
 */
int again_restore(const char *directory, struct error *error);

/* It is not needed any more. */
int again_drop(const char *directory, struct error *error);

#endif
