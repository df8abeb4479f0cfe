/* Per-element arithmetic of the cells, forward and backward, written once for every engine: the
   equations of CONTRACT, "What is learned"; the LSTM's are eq. 20-22 of the supplement of Ba, Kiros
   and Hinton (2016). Gates come in behind their functions, sums behind their normalizations; `d` is
   the gradient of the step's h. */
#ifndef RUNNEL_GATES_H
#define RUNNEL_GATES_H

#include "formulas.h"

/* ---- layer normalization: LN(a; g, b) = g x + b, x = (a - mean) inverse, eq. 3 ---- */

#define GATES_NORM_EPSILON 1e-5f

/* From the biased variance of a. */
FORMULA float gates_norm_inverse(float variance) {
    return 1.0f / sqrtf(variance + GATES_NORM_EPSILON);
}

/* a = LN of one sum. */
FORMULA float gates_norm(float x, float gain, float shift) {
    return gain * x + shift;
}

/* The gradient of a sum from d, that of g x + b; mean = mean(d g), slope = mean(d g x). */
FORMULA float gates_norm_backward(float d, float gain, float x, float mean, float slope,
                                  float inverse) {
    return inverse * (d * gain - mean - x * slope);
}

/* ---- dense: h = f(a) ---- */

/* NaN stays NaN. */
FORMULA float gates_relu(float a) {
    return a <= 0.0f ? 0.0f : a;
}

FORMULA float gates_relu_backward(float h, float d) {
    return h > 0.0f ? d : 0.0f;
}

/* rnn, and dense with tanh: h = tanh(a) */
FORMULA float gates_tanh_backward(float h, float d) {
    return d * formula_tanh_slope(h);
}

/* ---- gru: candidate n = tanh(x + r hn); h' = (1 - z) n + z h ---- */

FORMULA float gates_gru_candidate(float x, float r, float hn) {
    return x + r * hn;
}

FORMULA float gates_gru_hidden(float z, float candidate, float h) {
    return (1.0f - z) * candidate + z * h;
}

/* The gradient of the recurrent sum of n, from that of n's sum. */
FORMULA float gates_gru_recurrent_backward(float n, float r) {
    return n * r;
}

struct gates_gru {
    float r, z, n; /* gradients of the gates' sums */
    float hn;      /* of the recurrent sum of n */
    float h;       /* of the h before, past W_hh */
};

FORMULA struct gates_gru gates_gru_backward(float d, float r, float z, float candidate, float hn,
                                            float h) {
    struct gates_gru g;
    g.n = d * (1.0f - z) * formula_tanh_slope(candidate);
    g.r = g.n * hn * formula_sigmoid_slope(r);
    g.z = d * (h - candidate) * formula_sigmoid_slope(z);
    g.hn = gates_gru_recurrent_backward(g.n, r);
    g.h = d * z;
    return g;
}

/* ---- lstm: c' = f c + i g; h' = o s, s = tanh(LN(c')) ---- */

FORMULA float gates_lstm_cell(float i, float f, float g, float c) {
    return f * c + i * g;
}

/* The gradient of the output gate's sum. */
FORMULA float gates_lstm_output_backward(float d, float o, float squashed) {
    return d * squashed * formula_sigmoid_slope(o);
}

/* The gradient of LN(c'), to be added to that of c' behind the normalization. */
FORMULA float gates_lstm_squashed_backward(float d, float o, float squashed) {
    return d * o * formula_tanh_slope(squashed);
}

struct gates_lstm {
    float i, f, g; /* gradients of the gates' sums */
    float c;       /* of the c before */
};

/* dc: the gradient of c', from h' and from the step behind. c: the cell before the step. */
FORMULA struct gates_lstm gates_lstm_backward(float dc, float i, float f, float g, float c) {
    struct gates_lstm d;
    d.i = dc * g * formula_sigmoid_slope(i);
    d.f = dc * c * formula_sigmoid_slope(f);
    d.g = dc * i * formula_tanh_slope(g);
    d.c = dc * f;
    return d;
}

#endif
