/*
 * Modules: shared objects that are opened when something needs them, because they need libraries
 * that the program must not depend on. A module lies next to libyoke (or next to the program, where
 * that is linked with the library's objects) or in a folder of YOKE_MODULES, where a site may also
 * keep modules of its own.
 *
 * A module exports one table, which starts with the version of its contract and its own size. It is
 * never closed: its libraries start threads and register functions that must not disappear.
 */
#ifndef YKI_MODULE_H
#define YKI_MODULE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"

enum { YKI_MODULE_PATH = 4096 };

/* What a caller expects of a module's table. */
typedef struct yki_module_contract {
    const char *symbol;     /* the table's name */
    const char *what;       /* for errors: "the backend contract" */
    uint32_t version, size; /* of the table: the exact version, the least size */
} yki_module_contract;

/* Finds a module's file in YOKE_MODULES, then in the library's folder; false if in neither. */
bool yki_module_locate(char path[YKI_MODULE_PATH], const char *file);
/* The library's folder, for errors. */
void yki_module_folder(char folder[YKI_MODULE_PATH]);
/*
 * Opens a module and returns its table. YK_ERROR_UNSUPPORTED if it cannot be loaded (the error then
 * names `package`, unless that is NULL) or was built for another version. On failure *table is
 * NULL.
 */
yk_status yki_module_open(const void **table, const char *path, const yki_module_contract *contract,
                          const char *package);

#endif
