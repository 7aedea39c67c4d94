/*
 * The contract between optimizer.c, which owns memory, threads and bookkeeping, and the rules
 * (sgd.c, adam.c), which own the arithmetic.
 */
#ifndef YKI_OPTIMIZER_H
#define YKI_OPTIMIZER_H

#include <yoke/optim.h>

#include "base/error.h"

enum { YKI_MAX_SLOTS = 2, YKI_MAX_HYPERPARAMETERS = 5, YKI_LR = 0 };

/*
 * Compiled once for each width of vectors and chosen when the program starts. Sanitizers cannot
 * watch the code that chooses, which runs before they do.
 */
#if defined(__x86_64__) && defined(__gnu_linux__) && !defined(__clang__) &&                        \
    !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define YKI_VECTORISED __attribute__((target_clones("avx512f", "avx2", "default")))
#else
#define YKI_VECTORISED
#endif

/* A piece of one parameter, its gradient and its state: all of count elements. */
typedef struct yki_piece {
    void *restrict value;
    const void *restrict grad;
    void *restrict state[YKI_MAX_SLOTS];
    int64_t count;
} yki_piece;

/* What one step multiplies by, made of hyperparameters and the step's number; a rule's own. */
typedef struct yki_coefficients {
    double c[8];
} yki_coefficients;

typedef struct yki_optimizer_rule {
    const char *name;
    int hyperparameters; /* names and values; YKI_LR is the first */
    const char *hyperparameter_names[YKI_MAX_HYPERPARAMETERS];
    const char *slot_names[YKI_MAX_SLOTS];
    int (*slots)(const double *hyperparameters); /* how many of them this setting needs */
    yk_status (*check)(const double *hyperparameters);
    /* step counts from 1. */
    yki_coefficients (*prepare)(const double *hyperparameters, int64_t step);
    void (*update_f32)(const yki_piece *piece, const yki_coefficients *coefficients);
    void (*update_f64)(const yki_piece *piece, const yki_coefficients *coefficients);
} yki_optimizer_rule;

yk_status yki_optimizer_create(yk_optimizer **optimizer, yk_model *model,
                               const yki_optimizer_rule *rule, const double *hyperparameters);

/* All of them at once, as the rule lists them; refused, and nothing changed, when the rule does. */
yk_status yki_optimizer_set_hyperparameters(yk_optimizer *optimizer, const double *values);

/* YK_OK when minimum <= value (< below, where below > 0); the error names rule, option and value.
 */
yk_status yki_check_option(const char *rule, const char *option, double value, double minimum,
                           double below);

#endif
