/* Keeping the objects of this layer alive: whatever is made on top of one retains it, and gives the
 * reference up with the object's public destroy function. */
#ifndef YKI_PARALLEL_REFERENCES_H
#define YKI_PARALLEL_REFERENCES_H

#include <yoke/data_parallel.h>
#include <yoke/ddp.h>
#include <yoke/local_sgd.h>
#include <yoke/zero.h>

void yki_ddp_retain(yk_ddp *ddp);
void yki_data_parallel_retain(yk_data_parallel *dp);
void yki_local_sgd_retain(yk_local_sgd *local);
void yki_zero_retain(yk_zero *zero);

#endif
