/*
 * Devices that need a library of their own are modules (base/module.h): libyoke-cuda.so, which is
 * opened when a device "cuda" is. A module exports one table, yki_device_module_table, and is
 * written against the contract of device.h, as the devices in the library are; the functions that
 * it needs are those of the headers that push default visibility: libyoke.so shows them to modules
 * under the version YOKE_PRIVATE (see src/private.map).
 */
#ifndef YKI_DEVICE_MODULE_H
#define YKI_DEVICE_MODULE_H

#include "device/device.h"

typedef struct yki_device_module {
    /* YOKE_DEVICE_CONTRACT, which the build computes of all headers that a device is written
     * against: a module must be of the library's own tree. And of this struct. */
    uint32_t version, size;
    const yki_device_type *type;
    /* How many devices there are, at least one; otherwise an error that says what is missing. */
    yk_status (*count)(int *count);
    /* One line about a device, for people; index is below count. */
    yk_status (*describe)(int index, char *text, size_t size);
} yki_device_module;

extern __attribute__((visibility("default"))) const yki_device_module yki_device_module_table;

/* The names of the types that are modules; NULL after the last. */
const char *yki_device_module_type(size_t index);
/* Opens the module of one of these types. On failure *module is NULL. */
yk_status yki_device_module_open(const yki_device_module **module, const char *type);

#endif
