/* What differs between a checkpoint's file and the configuration that reads it: refused, or marked
   as lacked in the layout, so that it starts from scratch. */
#ifndef RUNNEL_CHECKPOINT_CHANGES_H
#define RUNNEL_CHECKPOINT_CHANGES_H

#include "checkpoint.h"
#include "checkpoint_layout.h"

#define CHECKPOINT_MEMORY "anomaly_memory" /* metadata: contexts in a memory */
#define CHECKPOINT_SHARE "anomaly_share"   /* metadata: a hash of anomaly.share */

enum {
    CHECKPOINT_DESCRIPTION_SIZE = 2048, /* bytes of a configuration's description */
    CHECKPOINT_SHARE_SIZE = 17,         /* bytes of the text of a hash of anomaly.share */
};

/* Appends to the report's warning. */
void checkpoint_warn(struct checkpoint_report *report, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Formats a hash of anomaly.share. */
void checkpoint_share(const struct config *config, char text[CHECKPOINT_SHARE_SIZE]);

/* Describes network and learning in one line. */
void checkpoint_describe(const struct config *config, char text[CHECKPOINT_DESCRIPTION_SIZE]);

/* Sets `begins` and `moments` of the layout. -1 (EX_CONFIG): the file has another model or learning
   configuration. */
int checkpoint_check_digest(struct checkpoint_layout *layout,
                            const struct checkpoint_source *source, const struct config *config,
                            struct checkpoint_report *report, struct error *error);

/* Marks entries that the file lacks, because it is older or did not keep them. Returns the number
   of entries that the file must have. */
size_t checkpoint_mark_lacked(struct checkpoint_layout *layout, const struct safetensors *file);

/* Marks entries that start from scratch under this configuration. */
void checkpoint_mark_changed(struct checkpoint_layout *layout, const struct safetensors *file,
                             const struct config *config, struct checkpoint_report *report);

#endif
