/*
 * What PyTorch's wrappers put into the names of a model's tensors: torch.compile "_orig_mod.", FSDP
 * "_fsdp_wrapped_module.", checkpointing of activations "_checkpoint_wrapped_module.", also between
 * parts of a name, where only a part of the model is wrapped; and DataParallel and DDP "module.",
 * which counts only where all names begin with it.
 */
#ifndef YKI_WRAPPERS_H
#define YKI_WRAPPERS_H

#include <stdbool.h>
#include <stddef.h>

/* The length of the wrapper that the name begins with; 0: none that comes off anywhere. */
size_t yki_wrapper_at(const char *name, size_t length);
/* Whether both names are the same once the wrappers are off both: a network's own names may be
 * those of wrappers. The first, of a file, may be that which a layer of torchvision's DenseNet had
 * when its published weights were saved: with a dot before the last number, "denselayer1.norm.1".
 */
bool yki_same_unwrapped(const char *name, size_t length, const char *known);
/* Takes the wrappers out of a name, in place. */
void yki_unwrap_name(char *name);

/* A name of a list, of *length bytes; *name is NULL where it is no text. False: it is not one of
 * the network's. */
typedef bool yki_name_at(const void *list, size_t index, const char **name, size_t *length);
/* Bytes of wrappers, in any order and "module." among them, that all the network's names of a list
 * of `count` begin with; more than a name holds are none. */
size_t yki_common_wrapper(yki_name_at *name_at, const void *list, size_t count);

#endif
