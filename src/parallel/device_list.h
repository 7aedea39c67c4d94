/* A list of devices, "cpu:0,cpu:1" or "cpu:0-3,cpu:4-7", as sets of cores, or "cuda:0,cuda:1". */
#ifndef YKI_DEVICE_LIST_H
#define YKI_DEVICE_LIST_H

#include <sched.h>
#include <stdbool.h>

#include "base/error.h"

enum { YKI_MAX_DEVICES = 64 };

typedef struct yki_device_list {
    int count;
    bool of_cores; /* the devices are parts of the cpu */
    struct {
        char name[24];   /* "cpu:0" */
        cpu_set_t cores; /* of this process's own, on which its thread runs */
    } device[YKI_MAX_DEVICES];
} yki_device_list;

/*
 * Any devices but the cpu are named by their types and indices, each once; their threads may run on
 * all cores. cpu:K is the K-th of as many equal parts of this process's cores as there are devices
 * (with more devices than cores, several share one); cpu:A-B are the cores A to B. One list has one
 * form; no part and no core comes twice. NULL: "cpu:0,cpu:1".
 */
yk_status yki_device_list_parse(yki_device_list *list, const char *text);

#endif
