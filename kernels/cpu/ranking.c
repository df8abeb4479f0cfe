/* A ranking: the loss of a target among the targets of its bank, which the current parameters read.
 */
#include <math.h>
#include <string.h>

#include "matrix.h"
#include "split.h"
#include "vector.h"
#include "walk.h"

/* A target, candidate 0, and the candidates of the bank that differ from it. */
struct ranked {
    struct network *tower;
    const struct output *output;
    const struct ranking *ranking;
    size_t count;   /* candidates */
    size_t size;    /* D */
    const float *q; /* (D,) */
    float norm;     /* |q| */
};

#define LEAST_NORM 1e-12F

static struct ranked ranked_of(const struct network *n, const struct model_head *head,
                               const float *q, const union value *y) {
    struct network *tower = network_of_output(n, head->output);
    const struct output *output = model_output(n->model, head->output);
    const struct bank *bank = &tower->bank;
    size_t others = bank_others(bank, y);
    tower->atoms[0] = y;
    for (size_t k = 0; k < others; k++)
        tower->atoms[k + 1] = bank->targets + bank->others[k] * bank->size;
    tower->count = others + 1;
    tower->ran = true;
    return (struct ranked){
        tower, output, &output->ranking, others + 1, output->size, q, 0,
    };
}

static bool is_symbol(const struct ranked *r) {
    return output_has_classes(r->output);
}

static struct network_steps run_of(const struct ranked *r) {
    return (struct network_steps){0, r->count, r->tower->zeros, r->tower->atoms};
}

static float norm_of(const float *a, size_t size) {
    return fmaxf(sqrtf(vector_dot(a, a, size)), LEAST_NORM);
}

/* The offset of a symbol's row of D numbers. */
static size_t row_of(const struct ranked *r, size_t k) {
    return r->tower->at[TENSOR_CANDIDATE_ROWS] + r->tower->atoms[k]->id * r->size;
}

/* Candidate k as a vector c (D,). */
static float *candidate(const struct ranked *r, size_t k) {
    return is_symbol(r) ? r->tower->parameters + row_of(r, k)
                        : r->tower->output + k * r->tower->padded;
}

/* - sum max(0, |q| - |c| / norm)^2: x is the more general of the two. */
static float order(const float *q, const float *c, float norm, size_t size) {
    float sum = 0;
#pragma omp simd reduction(+ : sum)
    for (size_t i = 0; i < size; i++) {
        float over = fmaxf(fabsf(q[i]) - fabsf(c[i]) / norm, 0);
        sum += over * over;
    }
    return -sum;
}

static float score_of(const struct ranked *r, size_t k) {
    const float *c = candidate(r, k);
    switch (r->ranking->score) {
    case RANKING_COSINE:
        return vector_dot(c, r->q, r->size) / (norm_of(c, r->size) * r->norm) /
               (float)r->ranking->temperature;
    case RANKING_ORDER:
        return order(r->q, c, norm_of(c, r->size), r->size);
    case RANKING_DOT:
        break;
    }
    const float *bias = r->tower->parameters + r->tower->at[TENSOR_CANDIDATE_BIAS];
    return vector_dot(c, r->q, r->size) + (is_symbol(r) ? bias[r->tower->atoms[k]->id] : 0);
}

/* Scores all candidates, in tower->scores. */
static void score_candidates(struct ranked *r) {
    const struct network_steps run = run_of(r);
    if (!is_symbol(r))
        network_forward(r->tower, &run, 0);
    r->norm = norm_of(r->q, r->size);
    for (size_t k = 0; k < r->count; k++)
        r->tower->scores[k] = score_of(r, k);
}

/* log sum e^s - s_0, or -s_0 + sum max(0, margin + s_k - s_0). Scores become their gradients. */
static double objective(const struct ranked *r) {
    float *s = r->tower->scores, first = s[0], most = s[0];
    double total = 0;
    if (r->ranking->objective == RANKING_HINGE) {
        double loss = -(double)first;
        s[0] = -1;
        for (size_t k = 1; k < r->count; k++) {
            double over = r->ranking->margin + (double)s[k] - (double)first;
            s[k] = over > 0;
            s[0] -= s[k];
            loss += over > 0 ? over : 0;
        }
        return loss;
    }
    for (size_t k = 1; k < r->count; k++)
        most = fmaxf(most, s[k]);
    for (size_t k = 0; k < r->count; k++) {
        double share = exp((double)s[k] - (double)most);
        total += share;
        s[k] = (float)share;
    }
    for (size_t k = 0; k < r->count; k++)
        s[k] /= (float)total;
    s[0] -= 1;
    return (double)most + log(total) - (double)first;
}

/* The rank of the target, equal scores counted half, and the number of different candidates. */
static void rank(const struct ranked *r, float *ranks) {
    const struct bank *bank = &r->tower->bank;
    const float *s = r->tower->scores;
    ranks[0] = ranks[1] = 1;
    for (size_t k = 1; k < r->count; k++) {
        if (bank->repeated[bank->others[k - 1]])
            continue;
        ranks[0] += s[k] > s[0] ? 1.0F : s[k] < s[0] ? 0.0F : 0.5F;
        ranks[1]++;
    }
}

double ranking_loss(struct network *n, const struct model_head *head, const float *h,
                    const union value *y, float *ranks) {
    float *output = n->d_output;
    split_project(n, n->parameters + n->at[TENSOR_OUTPUT_WEIGHT], n->padded, n->width,
                  n->parameters + n->at[TENSOR_OUTPUT_BIAS], &h, &output, 1);
    struct ranked r = ranked_of(n, head, output + head->at, y);
    if (r.count < 2)
        return (double)NAN;
    score_candidates(&r);
    if (ranks)
        rank(&r, ranks);
    return objective(&r);
}

/* d, the gradient of a normalized vector a / norm, becomes that of a: 0 if a has no direction. */
static void normalized_backward(float *d, const float *a, float norm, size_t size) {
    if (norm <= LEAST_NORM) {
        memset(d, 0, size * sizeof *d);
        return;
    }
    float along = vector_dot(d, a, size) / (norm * norm);
    for (size_t i = 0; i < size; i++)
        d[i] = (d[i] - along * a[i]) / norm;
}

/* The gradients of q and c, given that of the score of candidate k; dc is overwritten. */
static void score_backward(const struct ranked *r, size_t k, float ds, float *dq, float *dc) {
    const float *c = candidate(r, k), *q = r->q;
    float norm = norm_of(c, r->size);
    switch (r->ranking->score) {
    case RANKING_DOT:
        for (size_t i = 0; i < r->size; i++)
            dc[i] = ds * q[i];
        vector_add(dq, ds, c, r->size);
        return;
    case RANKING_COSINE: /* dq is that of q / |q| until all candidates have added to it */
        ds /= (float)r->ranking->temperature;
        for (size_t i = 0; i < r->size; i++)
            dc[i] = ds * q[i] / r->norm;
        vector_add(dq, ds / norm, c, r->size);
        break;
    case RANKING_ORDER:
        for (size_t i = 0; i < r->size; i++) {
            float over = 2 * ds * fmaxf(fabsf(q[i]) - fabsf(c[i]) / norm, 0);
            dq[i] -= q[i] > 0 ? over : q[i] < 0 ? -over : 0;
            dc[i] = c[i] > 0 ? over : c[i] < 0 ? -over : 0;
        }
        break;
    }
    normalized_backward(dc, c, norm, r->size);
}

double ranking_backward(struct network *n, const struct model_head *head, const float *q,
                        const union value *y, float scale, float *d) {
    struct ranked r = ranked_of(n, head, q, y);
    struct network *tower = r.tower;
    const struct network_steps run = run_of(&r);
    float *biases = n->gradient + tower->at[TENSOR_CANDIDATE_BIAS];
    score_candidates(&r);
    double loss = objective(&r);
    memset(d, 0, r.size * sizeof *d);
    for (size_t k = 0; k < r.count; k++) {
        float ds = tower->scores[k] * scale, *dc = tower->d_output + k * tower->padded;
        score_backward(&r, k, ds, d, dc);
        if (!is_symbol(&r))
            continue;
        vector_add(n->gradient + row_of(&r, k), 1, dc, r.size);
        biases[tower->atoms[k]->id] += ds;
    }
    if (r.ranking->score == RANKING_COSINE)
        normalized_backward(d, q, r.norm, r.size);
    if (is_symbol(&r))
        return loss;
    output_backward(tower, &run, 0);
    chain_backward(tower, &run, false, 0);
    return loss;
}
