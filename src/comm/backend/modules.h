/* Backends that are shared objects of their own: finding and opening them. */
#ifndef YKI_MODULES_H
#define YKI_MODULES_H

#include <yoke/backend.h>

#include "base/error.h"

/*
 * Opens the module of that name, at the first time. YK_ERROR_UNSUPPORTED when it is missing or made
 * for another version of the contract, with the package to install; YK_ERROR_INVALID_ARGUMENT for
 * an unknown name. On failure *ops is NULL.
 */
yk_status yki_module_find(const yk_backend_ops **ops, const char *name);
/* Whether the file of that module is there, with the same errors; opens nothing. */
yk_status yki_module_exists(const char *name);
/*
 * Gives all processes of an MPI launcher the text of the first one (yk_backend_share_text).
 * YK_ERROR_NOT_FOUND when no module can do so.
 */
yk_status yki_module_share_text(const char *name, char *text, size_t size, double timeout_s);

#endif
