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

/* The wrapper that so many bytes of a name begin with, in bytes; 0: none that comes off anywhere.
 */
size_t yki_wrapper_at(const char *name, size_t length);
/* Whether the name is `known` once its wrappers are off. */
bool yki_is_wrapped(const char *name, size_t length, const char *known);
/* Takes the wrappers out of a name, in place. */
void yki_unwrap_name(char *name);

#endif
