/* What <yoke/profile.h> shows: the times of a plan's steps. */
#ifndef YKI_PROFILE_H
#define YKI_PROFILE_H

#include "compile/plan.h"

/* Counts one run of a step. */
void yki_profile_add(const yki_plan *plan, const yki_step *step, double seconds);

#endif
