#include "bench_floor.h"

#include "config/config.h"
#include "engine/cuda_module.h"
#include "model/rule.h"

const char *const floor_phase_names[PHASES] = {"forward", "backward", "optimizer"};

enum {
    SQUARE_FLOPS = 2, /* per parameter: the sum of its gradient's square */

    /* per number of P of least squares: subtraction, forgetting, and the product with phi */
    COVARIANCE_FLOPS = 5,
    SOLVED_FLOPS = 2, /* per number of W */
    DOUBLE_FLOPS = 2, /* a vector holds half as many doubles */

    FUNCTION_FLOPS = 16, /* sigmoid or tanh: e^x in single precision and a division, at least */
};

/* Numbers in the matrices, by use. */
struct matrices {
    double first;     /* W_ih of the first layer; one-hot input: 0 */
    double column;    /* one-hot input: the column that a step reads */
    double upper;     /* W_ih of the others, and of the first layer with an embedding */
    double recurrent; /* W_hh of all layers */
    double earlier;   /* of it through which the gradient reaches the step before */
    double output;
    double all; /* their sum, including a one-hot first layer */

    double forward, backward; /* flops of a step's elementwise work in all layers */
    double traces;            /* numbers that the rule keeps of the parameters, */
    double moved;             /* and flops of a step that advances them */
};

static double size_of(const struct model *model, enum tensor_role role, size_t layer) {
    const struct tensor *tensor = model_find(model, role, layer);
    return tensor ? (double)tensor_size(tensor) : 0;
}

static void count_elementwise(const struct layer *layer, struct matrices *m) {
    const struct cell_kind *cell = cell_kind(layer->cell);
    const struct norm_kind *norm = norm_kind(layer->norm);
    double size = (double)(layer->size * layer_positions(layer)), normalized = 0,
           functions = cell->functions;
    for (size_t place = 0; place < PLACES; place++)
        if (cell->norms[place] && !layer_is_columns(layer))
            normalized += place == PLACE_INNER ? 1 : (double)cell->gates;
    if (layer_is_columns(layer))
        normalized = (double)cell->outputs;
    if (cell->function)
        functions += activation_kind(layer->activation)->functions;
    m->forward += size * (cell->forward + FUNCTION_FLOPS * functions + norm->forward * normalized);
    m->backward += size * (cell->backward + norm->backward * normalized);
}

/* The norms of an inner value and of columns' output do not reach the next state. */
static bool has_trace(const struct model *model, enum rule rule, const struct tensor *tensor) {
    if (rule_kind(rule)->keeps != KEEPS_TRACE || !rule_covers(model, rule, tensor))
        return false;
    enum tensor_role last = layer_is_columns(&model->architecture.layers[tensor->layer])
                                ? TENSOR_GAIN_IH
                                : TENSOR_GAIN_INNER;
    return tensor->role != last && tensor->role != last + TENSOR_NORM_BIAS_IH - TENSOR_GAIN_IH;
}

/* gradient += sum_i w_i e_i and e_i = sum_j D_ij e_j + I_i x of each parameter. */
static void count_traces(const struct model *model, enum rule rule, struct matrices *m) {
    for (size_t i = 0; i < model->learned_count; i++) {
        const struct tensor *tensor = &model->tensors[i];
        if (!has_trace(model, rule, tensor))
            continue;
        const struct layer *layer = &model->architecture.layers[tensor->layer];
        double states = layer_is_columns(layer) ? (double)cell_kind(layer->cell)->states : 1;
        m->traces += states * (double)tensor_size(tensor);
        m->moved += states * (2 * states + 3) * (double)tensor_size(tensor);
    }
}

static struct matrices count_matrices(const struct model *model, enum rule rule) {
    const struct input *input = &model->architecture.input;
    const struct tensor *first = model_find(model, TENSOR_WEIGHT_IH, 0);
    struct matrices m = {.output = size_of(model, TENSOR_OUTPUT_WEIGHT, 0)};
    for (size_t layer = 0; layer < model->architecture.layer_count; layer++) {
        m.recurrent += size_of(model, TENSOR_WEIGHT_HH, layer);
        m.upper += layer ? size_of(model, TENSOR_WEIGHT_IH, layer) : 0;
        double again = (double)(layer_positions(&model->architecture.layers[layer]) - 1) *
                       size_of(model, TENSOR_WEIGHT_IH, layer);
        m.forward += 2 * again;
        m.backward += 4 * again;
        count_elementwise(&model->architecture.layers[layer], &m);
    }
    count_traces(model, rule, &m);
    m.earlier = rule_kind(rule)->keeps == KEEPS_TRACE ? 0 : m.recurrent;
    double bottom = (double)tensor_size(first);
    m.all = bottom + m.upper + m.recurrent + m.output;
    if (input_is_real(input))
        m.first = bottom;
    else if (input->embedding)
        m.upper += bottom;
    else
        m.column = (double)first->rows;
    return m;
}

/* One run over `steps` steps, of which `outputs` need the output layer and `together` are
   computed at once. */
static struct work forward(const struct matrices *m, double steps, double outputs,
                           double together) {
    double inputs = m->first + m->upper;
    return (struct work){
        .flops = 2 * (steps * (inputs + m->recurrent) + outputs * m->output) +
                 steps * (m->column + m->forward),
        .weights_read =
            sizeof(float) * (steps * (m->recurrent + m->column) + steps / together * inputs +
                             outputs / together * m->output),
    };
}

static struct work backward(const struct matrices *m, double steps, double outputs) {
    double weights = 2 * (steps * (m->first + m->upper + m->recurrent) + outputs * m->output) +
                     steps * (m->column + m->backward);
    double below = 2 * (steps * m->upper + (steps - 1) * m->earlier + outputs * m->output);
    return (struct work){
        .flops = weights + below + steps * m->moved,
        .weights_read = sizeof(float) * ((steps - 1) * m->earlier + m->upper + m->output),
    };
}

static struct work add(struct work a, struct work b) {
    return (struct work){a.flops + b.flops, a.weights_read + b.weights_read, a.updated + b.updated};
}

static struct work divide(struct work work, double count) {
    return (struct work){work.flops / count, work.weights_read / count, work.updated / count};
}

/* One step of the least squares of a solved output: reads and writes P and W. */
static struct work solve(const struct model *model) {
    double inputs = (double)model->solved, weights = inputs * (double)model->outputs;
    return (struct work){
        .flops = DOUBLE_FLOPS * (COVARIANCE_FLOPS * inputs * inputs + SOLVED_FLOPS * weights),
        .updated = 2 * sizeof(double) * (inputs * inputs + weights),
    };
}

struct floor_work floor_work(const struct config *config, const struct model *model,
                             size_t together) {
    const struct optimizer *optimizer = &config->learning.optimizer;
    const struct matrices m = count_matrices(model, config->learning.rule);
    double window = (double)config->learning.window, stride = (double)config->learning.stride;
    double parameters = (double)model->learned, blocks = (double)optimizer_moments(optimizer);
    double block = sizeof(float) * parameters;
    double waiting = (double)together < stride ? (double)together : stride;
    struct work pass = backward(&m, window, stride);
    if (stride < window)
        pass = add(pass, forward(&m, window, stride, window));
    double traces = sizeof(float) * m.traces;
    pass.updated = block + 2 * traces;
    struct work change = {
        .flops = parameters * (SQUARE_FLOPS + optimizer_kind(optimizer->kind)->flops),
        .updated = block * (1 + 2 * (1 + blocks) - (optimizer->pull > 0)), /* w_0 is only read */
    };
    const struct work solved = solve(model);
    return (struct floor_work){
        .phases = {divide(forward(&m, stride, stride, waiting), stride), divide(pass, stride),
                   add(divide(change, stride), solved)},
        .weights_set = sizeof(float) * m.all,
        .updated_set = block * (2 + blocks) + traces + solved.updated / 2,
        .solved = solved.updated,
    };
}

struct floor_work floor_of(struct floor_work work, size_t networks) {
    for (int phase = 0; phase < PHASES; phase++)
        work.phases[phase] = divide(work.phases[phase], 1 / (double)networks);
    return work;
}

/* Seconds for `bytes` of a pass over a working set of `set` bytes. */
static double charge(double bytes, double set, const struct machine *machine,
                     const struct figure *bandwidth) {
    double left = set, seconds = 0;
    for (int level = 0; level < LEVELS && left > 0; level++) {
        double capacity = (double)machine->capacity[level],
               held = left < capacity ? left : capacity;
        seconds += bytes * (held / set) / bandwidth[level].quiet;
        left -= held;
    }
    return seconds;
}

struct floor_time floor_phase(const struct floor_work *work, enum floor_phase phase,
                              const struct machine *machine,
                              const struct machine_figures *figures) {
    const struct work *w = &work->phases[phase];
    double flops = w->flops / figures->multiply_add.quiet;
    double bytes = charge(w->weights_read, work->weights_set, machine, figures->read) +
                   charge(w->updated, work->updated_set, machine, figures->update);
    return (struct floor_time){flops, bytes, 0, flops > bytes ? flops : bytes};
}

struct floor_time floor_total(const struct floor_work *work, const struct machine *machine,
                              const struct machine_figures *figures) {
    struct floor_time total = {0};
    for (int phase = 0; phase < PHASES; phase++) {
        struct floor_time time = floor_phase(work, phase, machine, figures);
        total.flops += time.flops;
        total.bytes += time.bytes;
        total.floor += time.floor;
    }
    return total;
}

struct floor_time floor_side_by_side(struct floor_time time, size_t threads) {
    double count = (double)threads;
    return (struct floor_time){time.flops / count, time.bytes / count, time.barriers / count,
                               time.floor / count};
}

/* Barriers after other parts than waves. */
enum {
    FORWARD_BARRIERS = 2,  /* begin, finish */
    BACKWARD_BARRIERS = 2, /* loss, output */
    UPDATE_BARRIERS = 3,   /* norm, update, its sums */
    SOLVE_BARRIERS = 2,    /* covariance, weights */
};

static const double GPU_CACHE_SHARE = 0.8;

/* Multiprocessors that play one network. */
static double team_of(const struct gpu_play *play) {
    size_t all = (size_t)play->figures->device.multiprocessors;
    return play->scope == SCOPE_BLOCK     ? 1
           : play->scope == SCOPE_CLUSTER ? CLUSTER_BLOCKS
                                          : (double)all / (double)play->networks;
}

/* Parameters and moments stay in shared memory during a plan: each byte is read and written once.
 */
static void keep_on_chip(struct floor_work *work, double kept, double plan, double stride) {
    for (int phase = 0; phase < PHASES; phase++)
        work->phases[phase].weights_read = 0;
    work->phases[PHASE_OPTIMIZER].updated =
        2 * kept / (plan > stride ? plan : stride) + work->solved;
}

struct gpu_work gpu_work(const struct config *config, const struct model *model,
                         const struct gpu_play *play) {
    const struct cuda_device *device = &play->figures->device;
    double window = (double)config->learning.window, stride = (double)config->learning.stride;
    double layers = (double)config->architecture.layer_count, plan = (double)play->plan;
    double together = plan < stride ? plan : stride, team = team_of(play);
    double networks = (double)play->networks, used = networks * team / device->multiprocessors;
    double kept = sizeof(float) * (double)model->learned *
                  (1 + (double)optimizer_moments(&config->learning.optimizer));
    struct gpu_work gpu = {.work = floor_work(config, model, play->plan), .launches = 1 / plan};
    gpu.used = used < 1 ? used : 1;
    gpu.work.phases[PHASE_BACKWARD].updated = 0;
    gpu.work.phases[PHASE_OPTIMIZER].updated = 2 * kept / stride + gpu.work.solved;
    gpu.work.updated_set = kept + gpu.work.solved / 2;
    if (kept <= team * (double)device->shared)
        keep_on_chip(&gpu.work, kept, plan, stride);
    gpu.work = floor_of(gpu.work, play->networks);
    gpu.work.weights_set *= networks;
    gpu.work.updated_set *= networks;
    gpu.barriers[PHASE_FORWARD] = (together + layers + FORWARD_BARRIERS) / together;
    gpu.barriers[PHASE_BACKWARD] =
        (BACKWARD_BARRIERS + window + layers - 1 + (config->architecture.input.embedding > 0) +
         (stride < window ? window + layers : 0)) /
        stride;
    gpu.barriers[PHASE_OPTIMIZER] = UPDATE_BARRIERS / stride + (model->solved ? SOLVE_BARRIERS : 0);
    return gpu;
}

static double charge_gpu(double bytes, double set, const struct cuda_figures *figures) {
    bool cached = set <= GPU_CACHE_SHARE * (double)figures->cache;
    return bytes / (cached ? figures->cache_read : figures->copy);
}

struct floor_time gpu_phase(const struct gpu_work *work, enum floor_phase phase,
                            const struct gpu_play *play) {
    const struct cuda_figures *figures = play->figures;
    const struct work *w = &work->work.phases[phase];
    struct floor_time time = {
        .flops = w->flops / (figures->multiply_add * work->used),
        .bytes = charge_gpu(w->weights_read, work->work.weights_set, figures) +
                 charge_gpu(w->updated, work->work.updated_set, figures),
        .barriers = work->barriers[phase] * figures->barriers[play->scope],
    };
    time.floor = (time.flops > time.bytes ? time.flops : time.bytes) + time.barriers;
    return time;
}

struct floor_time gpu_total(const struct gpu_work *work, const struct gpu_play *play) {
    double launch = work->launches * play->figures->launch;
    struct floor_time total = {.barriers = launch, .floor = launch};
    for (int phase = 0; phase < PHASES; phase++) {
        struct floor_time time = gpu_phase(work, phase, play);
        total.flops += time.flops;
        total.bytes += time.bytes;
        total.barriers += time.barriers;
        total.floor += time.floor;
    }
    return total;
}
