/* runnel: list the programs by task, and start them. See runnel(1). */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sysexits.h>
#include <unistd.h>

#include "common/complain.h"
#include "common/options.h"
#include "common/program.h"

struct options {
    bool tasks;
};

/* `argument`, or NULL, precedes those of the user; NULL as `program` begins a group. */
struct task {
    const char *name, *program, *argument, *summary, *example;
};

static const struct task tasks[] = {
    {"Forecast and learn", NULL, NULL, NULL, NULL},
    {"forecast", "runnel-evaluate", NULL, "forecast a table, and compare with simple methods",
     "FILE.csv"},
    {"daemon", "runneld", NULL, "run the daemon, which learns from a stream", "--config FILE.yaml"},
    {"feed", "runnel-feed", NULL, "send a file, a device, a broker or this machine's load",
     "csv FILE.csv"},
    {"replay", "runnel-replay", NULL, "send the examples of a journal to another daemon",
     "STATE_DIRECTORY"},
    {"Watch", NULL, NULL, NULL, NULL},
    {"watch", "runnel-watch", NULL, "print losses, predictions and alarms", "-t prediction"},
    {"top", "runnel-top", NULL, "show daemons on a terminal", ""},
    {"web", "runnel-web", NULL, "show daemons in a browser; metrics for Prometheus", ""},
    {"record", "runnel-record", NULL, "record statistics: SQLite, CSV or TensorBoard",
     "FILE.sqlite"},
    {"plot", "runnel-plot", NULL, "draw a recording or an experiment", "FILE.sqlite"},
    {"alert", "runnel-alert", NULL, "report problems and abnormal examples", "-- PROGRAM"},
    {"relay", "runnel-relay", NULL, "send predictions to a message broker",
     "mqtt://127.0.0.1/predictions"},
    {"Operate", NULL, NULL, NULL, NULL},
    {"status", "runnel-ctl", "status", "print the state of a daemon", ""},
    {"backup", "runnel-ctl", "backup", "copy the state of a daemon", "DIRECTORY"},
    {"restore", "runnel-ctl", "restore", "restore a backup", "DIRECTORY"},
    {"ctl", "runnel-ctl", NULL, "all other commands for a daemon", "set learning.clip=1"},
    {"fleet", "runnel-fleet", NULL, "show and move the daemons that share a stream", "status"},
    {"keygen", "runnel-keygen", NULL, "generate keys for sockets on a network", "NAME"},
    {"Compare", NULL, NULL, NULL, NULL},
    {"experiment", "runnel-experiment", NULL, "compare variants of a configuration", "FILE.yaml"},
    {"bench", "runnel-bench", NULL, "measure the speed of a configuration", "FILE.yaml"},
};
enum { TASKS = sizeof tasks / sizeof *tasks, LIST_SIZE = 4096 };

static const struct option_row rows[] = {
    {"tasks", 't', NULL, "print the tasks: name, command and summary, separated by tabs",
     OPTION_FLAG(struct options, tasks)},
    OPTIONS_LAST,
};

static const struct task *find(const char *name) {
    for (size_t i = 0; i < TASKS; i++)
        if (tasks[i].program && !strcmp(tasks[i].name, name))
            return &tasks[i];
    return NULL;
}

/* The list of tasks under their headings, into `text`. */
static const char *list(char text[LIST_SIZE]) {
    FILE *to = fmemopen(text, LIST_SIZE, "w");
    if (!to)
        return NULL;
    for (size_t i = 0; i < TASKS; i++)
        if (tasks[i].program)
            fprintf(to, "  %-11s %s\n", tasks[i].name, tasks[i].summary);
        else
            fprintf(to, "%s%s:\n", i ? "\n" : "", tasks[i].name);
    fputs("\n'runnel help TASK' prints the options of a task.\n\nExit status: that of the task's "
          "program, or 64 unknown task, 69 program not installed, 71 cannot start the program.",
          to);
    fclose(to);
    return text;
}

/* Becomes the program of the task; returns only with an exit status for a failure. The two words
   before the operands, in which the command stands, are overwritten. */
static int start(const struct task *task, const char *argument, char **operands) {
    char path[PATH_MAX];
    if (argument)
        *--operands = (char *)argument;
    *--operands = (char *)task->program;
    program_find(path, task->program);
    execvp(path, operands);
    if (errno == ENOENT && !(strchr(path, '/') && access(path, F_OK) == 0))
        return complain(EX_UNAVAILABLE,
                        "%s not found: this installation was built without it; see 'configure "
                        "--help'",
                        task->program);
    return complain(EX_OSERR, "cannot start %s: %s", path, strerror(errno));
}

static int help(const struct command_line *line, char **operands) {
    if (!operands[0]) {
        options_help(line, stdout, 80);
        return complain_output();
    }
    const struct task *task = find(operands[0]);
    if (!task || operands[1])
        return options_complain(
            line, task ? "help: expected one task, got more" : "help: unknown task '%s'",
            operands[0]);
    printf("%s: %s\nExample: runnel %s%s%s\nManual: man %s\n\n", task->name, task->summary,
           task->name, *task->example ? " " : "", task->example, task->program);
    fflush(stdout); /* before the program writes its own */
    char *words[] = {NULL, NULL, NULL};
    return start(task, "--help", words + 2);
}

int main(int argc, char **argv) {
    static char text[LIST_SIZE];
    struct options options = {false};
    const struct command_line line = {
        .name = "runnel",
        .operands = "[TASK [ARGUMENT]...]",
        .summary = "Start the program for a task. Each task is also a program of its own.",
        .ending = list(text),
        .groups = {{NULL, rows, &options}},
        .options_first = true,
    };
    char **operands;
    int status = options_parse(&line, argc, argv, &operands);
    if (status != OPTIONS_GO_ON)
        return status;
    if (options.tasks) {
        for (size_t i = 0; i < TASKS; i++)
            if (tasks[i].program)
                printf("%s\t%s%s%s\t%s\n", tasks[i].name, tasks[i].program,
                       tasks[i].argument ? " " : "", tasks[i].argument ? tasks[i].argument : "",
                       tasks[i].summary);
        return complain_output();
    }
    if (!operands[0] || !strcmp(operands[0], "help"))
        return help(&line, operands[0] ? operands + 1 : operands);
    const struct task *task = find(operands[0]);
    if (!task)
        return options_complain(&line, "unknown task '%s'", operands[0]);
    return start(task, task->argument, operands + 1);
}
