/* What every engine has to get right, whatever starts its ranks. */
#ifndef TEST_ENGINE_H
#define TEST_ENGINE_H

#include "harness.h"

/* Skips the case where the module was not built. */
void require_module(const char *file);
/* The network of YOKE_BACKEND, or tcp. Skips the case where it was not built. */
const char *require_network(void);
yk_group *open_network(double timeout_s);
/* Every collective, dtype and operation of one open group, with several sizes. */
void check_collectives(yk_group *group);
/* Messages round a ring, and a mismatch between two ranks. */
void check_messages(yk_group *group);
/* Mismatches and invalid arguments, after which the group goes on. */
void check_mismatches(yk_group *group);

#endif
