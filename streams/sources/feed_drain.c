#include "feed_drain.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sysexits.h>
#include <unistd.h>

#include "common/error.h"
#include "common/sync.h"
#include "common/text.h"
#include "streams/feed.h"

/* ---- File ----

   The file of the templates' IDs: lines "ID TEXT" in the order of creation and change; the last
   line of an ID counts. It is locked while it is open. */

/* Receives a line: the text is terminated and may be changed. */
typedef int template_load(void *context, uint32_t id, char *text, struct error *error);

struct template_file {
    const char *path;
    int fd;
};

static int fail(const struct template_file *file, int status, const char *what,
                struct error *error) {
    return error_set(error, status, "%s: cannot %s: %s", file->path, what, strerror(errno));
}

/* Parses "17 Accepted password for <*>". */
static int read_line(char *line, template_load *take, void *context, struct error *error) {
    char *end;
    errno = 0;
    unsigned long long id = strtoull(line, &end, 10);
    if (end == line || *end != ' ' || errno || id > UINT32_MAX || *line == '-')
        return error_set(error, EX_DATAERR, "expected an id and a template, got '%.40s'", line);
    return take(context, (uint32_t)id, end + 1, error);
}

/* Reads all lines that end with a newline; `*good` is their size in bytes. */
static int read_lines(const struct template_file *file, FILE *from, template_load *take,
                      void *context, off_t *good, struct error *error) {
    char *line = NULL;
    size_t capacity = 0;
    ssize_t size;
    int status = 0;
    *good = 0;
    for (unsigned long number = 1; status == 0 && (size = getline(&line, &capacity, from)) > 0;
         number++) {
        if (line[size - 1] != '\n')
            break;
        line[size - 1] = '\0';
        status = read_line(line, take, context, error);
        if (status < 0)
            error_prefix(error, "%s:%lu", file->path, number);
        *good += size;
    }
    if (status == 0 && ferror(from))
        status = fail(file, EX_IOERR, "read", error);
    free(line);
    return status;
}

static int read_file(const struct template_file *file, template_load *take, void *context,
                     struct error *error) {
    int copy = fcntl(file->fd, F_DUPFD_CLOEXEC, 0);
    FILE *from = copy < 0 ? NULL : fdopen(copy, "r");
    if (!from) {
        if (copy >= 0)
            close(copy);
        return fail(file, EX_OSERR, "read", error);
    }
    off_t good;
    int status = read_lines(file, from, take, context, &good, error);
    fclose(from);
    if (status < 0)
        return -1;
    return ftruncate(file->fd, good) < 0 ? fail(file, EX_IOERR, "write", error) : 0;
}

static int open_locked(struct template_file *file, struct error *error) {
    file->fd = open(file->path, O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
    if (file->fd < 0)
        return fail(file, EX_CANTCREAT, "open", error);
    struct stat status;
    if (fstat(file->fd, &status) < 0 || !S_ISREG(status.st_mode))
        return error_set(error, EX_CANTCREAT, "%s: not a regular file", file->path);
    if (flock(file->fd, LOCK_EX | LOCK_NB) == 0)
        return sync_directory_of(file->path) < 0 ? fail(file, EX_IOERR, "sync", error) : 0;
    if (errno != EWOULDBLOCK)
        return fail(file, EX_IOERR, "lock", error);
    return error_set(error, EX_TEMPFAIL,
                     "%s: in use by another process; give each feeder its own file", file->path);
}

static void template_file_close(struct template_file **pointer) {
    struct template_file *file = *pointer;
    if (!file)
        return;
    if (file->fd >= 0)
        close(file->fd);
    free(file);
    *pointer = NULL;
}

/* Opens or creates the file and passes on its lines. Cuts off a last line without a newline, which
   a crash may leave. Fails as drain_open does. */
static int template_file_open(struct template_file **result, const char *path, template_load *take,
                              void *context, struct error *error) {
    struct template_file *file = calloc(1, sizeof *file);
    *result = file;
    if (!file)
        return error_no_memory(error);
    file->path = path;
    if (open_locked(file, error) == 0 && read_file(file, take, context, error) == 0)
        return 0;
    template_file_close(result);
    return -1;
}

/* Appends a line and waits for the disk. */
static int template_file_append(struct template_file *file, uint32_t id, const char *text,
                                struct error *error) {
    char *line;
    int size = asprintf(&line, "%" PRIu32 " %s\n", id, text);
    if (size < 0)
        return error_no_memory(error);
    ssize_t written = write(file->fd, line, (size_t)size);
    free(line);
    if (written >= 0 && written < size)
        errno = ENOSPC;
    if (written < size || fdatasync(file->fd) < 0)
        return fail(file, EX_IOERR, "write", error);
    return 0;
}

#define SIMILARITY 0.4 /* least share of words that a line has in common with its template */

enum { CHILDREN_MAX = 100, LIST_FIRST = 4 };

static const char WILD[] = "<*>", NUMBER[] = "<N>";

struct template {
    char **words; /* (count,) owned, except WILD itself */
    size_t count;
};

/* Lines with this number of words and this first word. */
struct branch {
    char *word; /* owned; NULL: for all words without a branch of their own */
    uint32_t *templates;
    size_t count, capacity;
};

struct node {
    struct branch *branches; /* (count,) */
    size_t count, capacity;
};

struct drain {
    struct template *templates; /* (count,) with room for `shared` */
    uint32_t count, shared;
    struct node nodes[DRAIN_WORDS_MAX + 1]; /* by the number of words */
    struct template_file *file;             /* or NULL */
    bool full_reported;
    char line[DRAIN_LINE_MAX];      /* the newest line, printable */
    char masked[DRAIN_MASKED_SIZE]; /* without its numbers */
    char *words[DRAIN_WORDS_MAX];   /* its words */
    char *text;                     /* text of a template, see drain_text */
};

/* ---- Words ---- */

static bool is_digit(char c) {
    return c >= '0' && c <= '9';
}

static bool is_hexadecimal(char c) {
    return is_digit(c) || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
}

/* Whether it is a letter or digit; bytes of UTF-8 count as letters. */
static bool is_alphanumeric(char c) {
    return is_digit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' ||
           (unsigned char)c >= 0x80;
}

/* Whether the whole run of letters and digits is a decimal or hexadecimal number. */
static bool is_number(const char *run, size_t size) {
    enum { HEXADECIMAL_LEAST = 4 };
    size_t digits = 0, hexadecimal = 0;
    bool prefixed = size > 2 && run[0] == '0' && (run[1] == 'x' || run[1] == 'X');
    for (size_t i = prefixed ? 2 : 0; i < size; i++) {
        digits += is_digit(run[i]);
        hexadecimal += is_hexadecimal(run[i]);
    }
    if (prefixed)
        return hexadecimal == size - 2;
    return size > 0 &&
           (digits == size || (digits > 0 && hexadecimal == size && size >= HEXADECIMAL_LEAST));
}

static size_t run_size(const char *text) {
    size_t size = 0;
    while (is_alphanumeric(text[size]))
        size++;
    return size;
}

/* Skips the rest of an address (".1.2", ":22") or date ("-11-22"). */
static const char *skip_rest(const char *text) {
    while (*text && strchr(".,:-", *text)) {
        size_t size = run_size(text + 1);
        if (!is_number(text + 1, size))
            break;
        text += 1 + size;
    }
    return text;
}

/* Whether the last byte is the sign of the next number. */
static bool is_sign(const char *masked, const char *to) {
    return to > masked && (to[-1] == '-' || to[-1] == '+') &&
           (to - 1 == masked || !is_alphanumeric(to[-2]));
}

static char *put_number(char *to) {
    memcpy(to, NUMBER, sizeof NUMBER - 1);
    return to + sizeof NUMBER - 1;
}

/* Masks the digits of a run of letters and digits that is not a number as a whole. */
static char *mask_digits(const char *run, size_t size, char *to) {
    for (size_t i = 0; i < size; i++) {
        if (!is_digit(run[i]))
            *to++ = run[i];
        else if (i == 0 || !is_digit(run[i - 1]))
            to = put_number(to);
    }
    return to;
}

void drain_mask(const char *line, char masked[DRAIN_MASKED_SIZE]) {
    const char *end = line + strnlen(line, DRAIN_LINE_MAX - 1);
    char *to = masked;
    for (size_t size; line < end; line += size) {
        size = run_size(line);
        if (line + size > end)
            break;
        if (size == 0) {
            *to++ = *line;
            size = 1;
        } else if (is_number(line, size)) {
            to = put_number(to - is_sign(masked, to));
            size = (size_t)(skip_rest(line + size) - line);
        } else {
            to = mask_digits(line, size, to);
            if (is_digit(line[size - 1]))
                size = (size_t)(skip_rest(line + size) - line);
        }
    }
    *to = '\0';
}

static size_t split(char *text, char *words[DRAIN_WORDS_MAX]) {
    size_t count = 0;
    char *rest;
    for (char *word = strtok_r(text, " ", &rest); word && count < DRAIN_WORDS_MAX;
         word = strtok_r(NULL, " ", &rest))
        words[count++] = word;
    return count;
}

static bool is_wild(const char *word) {
    return strcmp(word, WILD) == 0;
}

/* ---- Tree ---- */

/* Makes room for one more element after `count`. */
static bool grow(void **list, size_t count, size_t *capacity, size_t size) {
    if (count < *capacity)
        return true;
    size_t more = *capacity ? 2 * *capacity : LIST_FIRST;
    void *grown = realloc(*list, more * size);
    if (!grown)
        return false;
    *list = grown;
    *capacity = more;
    return true;
}

/* Returns the branch of this first word, or the shared one, or NULL. */
static struct branch *find_branch(struct node *node, const char *word) {
    struct branch *shared = NULL;
    for (size_t i = 0; i < node->count; i++) {
        struct branch *branch = &node->branches[i];
        if (!branch->word)
            shared = branch;
        else if (strcmp(branch->word, word) == 0)
            return branch;
    }
    return shared;
}

static struct branch *add_branch(struct node *node, const char *word) {
    char *copy = word ? strdup(word) : NULL;
    if ((word && !copy) ||
        !grow((void **)&node->branches, node->count, &node->capacity, sizeof *node->branches)) {
        free(copy);
        return NULL;
    }
    struct branch *branch = &node->branches[node->count++];
    *branch = (struct branch){.word = copy};
    return branch;
}

/* Returns the branch for a new template with this first word: its own, up to CHILDREN_MAX branches,
   unless the word is a variable; else the shared one. */
static struct branch *branch_for(struct node *node, const char *word) {
    bool varies = is_wild(word);
    struct branch *found = find_branch(node, word);
    bool shared = found && !found->word;
    if (found && (!shared || varies))
        return found;
    if (varies)
        return add_branch(node, NULL);
    for (size_t i = 0; i < node->count && !shared; i++)
        shared = !node->branches[i].word;
    if (node->count + !shared < CHILDREN_MAX)
        return add_branch(node, word);
    return shared ? found : add_branch(node, NULL);
}

static void free_template(struct template *template) {
    for (size_t i = 0; i < template->count; i++)
        if (template->words[i] != WILD)
            free(template->words[i]);
    free(template->words);
    *template = (struct template){0};
}

static int copy_words(struct template *template, char *const *words, size_t count) {
    template->words = calloc(count, sizeof *template->words);
    for (; template->words && template->count < count; template->count++) {
        char *word = words[template->count];
        word = is_wild(word) ? (char *)WILD : strdup(word);
        if (!word)
            break;
        template->words[template->count] = word;
    }
    if (template->words && template->count == count)
        return 0;
    free_template(template);
    return -1;
}

static int add_template(struct drain *drain, char *const *words, size_t count,
                        struct error *error) {
    struct branch *branch = branch_for(&drain->nodes[count], words[0]);
    struct template *template = &drain->templates[drain->count];
    if (!branch ||
        !grow((void **)&branch->templates, branch->count, &branch->capacity,
              sizeof *branch->templates) ||
        copy_words(template, words, count) < 0)
        return error_no_memory(error);
    branch->templates[branch->count++] = drain->count++;
    return 0;
}

/* Returns the branch's template with the most words in common; among equals, the one with the most
   <*>. Returns the drain's `shared` if none is similar enough. */
static uint32_t most_similar(const struct drain *drain, const struct branch *branch, size_t count) {
    size_t most = 0, most_wild = 0;
    uint32_t best = drain->shared;
    for (size_t i = 0; branch && i < branch->count; i++) {
        const struct template *template = &drain->templates[branch->templates[i]];
        size_t same = 0, wild = 0;
        for (size_t k = 0; k < count; k++) {
            if (template->words[k] == WILD)
                wild++;
            else
                same += strcmp(template->words[k], drain->words[k]) == 0;
        }
        bool better = best == drain->shared || same > most || (same == most && wild > most_wild);
        if ((double)same < SIMILARITY * (double)count || !better)
            continue;
        most = same;
        most_wild = wild;
        best = branch->templates[i];
    }
    return best;
}

/* Replaces words that differ in the line by <*>; returns whether there were any. */
static bool generalize(struct template *template, char *const *words) {
    bool changed = false;
    for (size_t k = 0; k < template->count; k++) {
        if (template->words[k] == WILD || strcmp(template->words[k], words[k]) == 0)
            continue;
        free(template->words[k]);
        template->words[k] = (char *)WILD;
        changed = true;
    }
    return changed;
}

/* ---- File ---- */

static int keep(struct drain *drain, uint32_t id, struct error *error) {
    const char *text = drain_text(drain, id);
    if (!text)
        return error_no_memory(error);
    return drain->file ? template_file_append(drain->file, id, text, error) : 0;
}

/* Loads one line of the file: a new template or a changed one. */
static int load(void *context, uint32_t id, char *text, struct error *error) {
    struct drain *drain = context;
    size_t count = split(text, drain->words);
    if (id > drain->count || count == 0)
        return error_set(error, EX_DATAERR, "expected a template of 0 to %lu, got %s %lu",
                         (unsigned long)drain->count, count ? "template" : "an empty template",
                         (unsigned long)id);
    if (id >= drain->shared)
        return error_set(error, EX_USAGE, "more than %lu templates; set a larger --templates",
                         (unsigned long)drain->shared);
    if (id == drain->count)
        return add_template(drain, drain->words, count, error);
    if (count != drain->templates[id].count)
        return error_set(error, EX_DATAERR,
                         "template %lu has %zu words here, but %zu in an earlier line",
                         (unsigned long)id, count, drain->templates[id].count);
    struct template changed = {0};
    if (copy_words(&changed, drain->words, count) < 0)
        return error_no_memory(error);
    free_template(&drain->templates[id]);
    drain->templates[id] = changed;
    return 0;
}

int drain_open(struct drain **result, uint32_t capacity, const char *path, struct error *error) {
    struct drain *drain = calloc(1, sizeof *drain);
    *result = drain;
    if (!drain)
        return error_no_memory(error);
    drain->shared = capacity - 1;
    drain->templates = calloc(drain->shared, sizeof *drain->templates);
    if (!drain->templates)
        error_no_memory(error);
    else if (!path || template_file_open(&drain->file, path, load, drain, error) == 0)
        return 0;
    drain_close(result);
    return -1;
}

void drain_close(struct drain **pointer) {
    struct drain *drain = *pointer;
    if (!drain)
        return;
    for (uint32_t i = 0; i < drain->count; i++)
        free_template(&drain->templates[i]);
    for (size_t n = 0; n <= DRAIN_WORDS_MAX; n++) {
        for (size_t i = 0; i < drain->nodes[n].count; i++) {
            free(drain->nodes[n].branches[i].word);
            free(drain->nodes[n].branches[i].templates);
        }
        free(drain->nodes[n].branches);
    }
    template_file_close(&drain->file);
    free(drain->templates);
    free(drain->text);
    free(drain);
    *pointer = NULL;
}

/* ---- Lines ---- */

const char *drain_text(struct drain *drain, uint32_t id) {
    if (id >= drain->count)
        return NULL;
    const struct template *template = &drain->templates[id];
    size_t size = 0;
    for (size_t i = 0; i < template->count; i++)
        size += strlen(template->words[i]) + 1;
    free(drain->text);
    char *to = drain->text = malloc(size);
    for (size_t i = 0; to && i < template->count; i++) {
        to = stpcpy(to, template->words[i]);
        *to++ = i + 1 < template->count ? ' ' : '\0';
    }
    return drain->text;
}

int drain_id(struct drain *drain, const char *line, uint32_t *id, struct error *error) {
    drain_mask(text_copy(drain->line, sizeof drain->line, line), drain->masked);
    size_t count = split(drain->masked, drain->words);
    *id = drain->shared;
    if (count == 0)
        return 0;
    *id = most_similar(drain, find_branch(&drain->nodes[count], drain->words[0]), count);
    if (*id != drain->shared)
        return generalize(&drain->templates[*id], drain->words) ? keep(drain, *id, error) : 0;
    if (drain->count < drain->shared) {
        *id = drain->count;
        if (add_template(drain, drain->words, count, error) < 0 || keep(drain, *id, error) < 0)
            return -1;
        feed_detail("template %lu: %s", (unsigned long)*id, drain->text);
    } else if (!drain->full_reported) {
        drain->full_reported = true;
        feed_print(
            "maximum of %lu templates reached; other lines share the id %lu; see --templates",
            (unsigned long)drain->count, (unsigned long)drain->shared);
    }
    return 0;
}
