/* What a loader was made of, for the layers above. */
#ifndef YKI_LOADER_H
#define YKI_LOADER_H

#include <yoke/data.h>

/* Whatever uses a loader keeps it alive, until it calls yk_loader_destroy. */
void yki_loader_retain(yk_loader *loader);
/* The options that it was created with. */
const yk_loader_options *yki_loader_options(const yk_loader *loader);
/* The number of ranks that share its data set, 1 without a group. */
int yki_loader_world_size(const yk_loader *loader);
const yk_dataset *yki_loader_dataset(const yk_loader *loader);
/* How many samples all ranks together have in the batches from `first` to before `end` of an epoch,
 * as each rank, or virtual rank, counts its own. */
int64_t yki_loader_samples(const yk_loader *loader, int64_t first, int64_t end);

#endif
