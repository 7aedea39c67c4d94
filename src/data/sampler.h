/* The sampler without allocation, for the loader. */
#ifndef YKI_SAMPLER_H
#define YKI_SAMPLER_H

#include <yoke/data.h>

#include "base/error.h"

/* Whether the options can be served. */
yk_status yki_sampler_validate(const yk_sampler_options *options);
/* As yk_sampler_count, of options that are valid. */
int64_t yki_sampler_count(const yk_sampler_options *options);
/* Whether the order is drawn anew for each epoch, into memory of (samples). */
bool yki_sampler_draws(const yk_sampler_options *options);
/* Replaces weights, which are valid, by what yki_sampler_draw reads: the cumulative distribution.
 */
void yki_sampler_cumulate(double *weights, int64_t samples);
/* Draws the order of an epoch, which is that of all ranks, if the options say so. They are valid,
 * and their weights cumulative. */
void yki_sampler_draw(const yk_sampler_options *options, int64_t epoch, int64_t *drawn);
/* The rank's indices of the order that was drawn. */
void yki_sampler_take(const yk_sampler_options *options, const int64_t *drawn, int64_t *indices);

#endif
