/* See device_list.h. */
#define _GNU_SOURCE
#include "parallel/device_list.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include <yoke/system.h>

typedef struct item {
    int first, last; /* cpu:FIRST-LAST; last is -1 in cpu:FIRST */
} item;

static yk_status parse_item(item *found, const char *text, size_t length)
{
    char word[24];
    int end = -1;
    snprintf(word, sizeof word, "%.*s", (int)length, text);
    if (length < sizeof word && strspn(word, "cpu:0123456789-") == length) {
        if (sscanf(word, "cpu:%5d%n", &found->first, &end) == 1 && word[end] == '\0')
            found->last = -1;
        else if (sscanf(word, "cpu:%5d-%5d%n", &found->first, &found->last, &end) != 2 ||
                 word[end] != '\0' || found->last < found->first)
            end = -1;
    }
    if (end < 0 || found->first < 0)
        return yki_error(YK_ERROR_INVALID_ARGUMENT,
                         "device \"%.*s\": expected cpu:K (a part of the cores), cpu:A-B (cores A "
                         "to B) or another device with its index, such as cuda:0",
                         (int)length, text);
    return YK_OK;
}

/* Whether the item is a device that is no part of the cpu: "cuda:0". */
static bool names_device(const char *text, size_t length)
{
    char word[24];
    snprintf(word, sizeof word, "%.*s", (int)length, text);
    return length < sizeof word && strncmp(word, "cpu", 3) != 0 && strchr(word, ':') &&
           yk_device_check(word) == YK_OK;
}

static yk_status split(yki_device_list *list, item *items, const char *text)
{
    for (const char *at = text;; at++) {
        size_t length = strcspn(at, ",");
        if (list->count == YKI_MAX_DEVICES)
            return yki_error(YK_ERROR_INVALID_ARGUMENT, "devices \"%s\": more than %d", text,
                             YKI_MAX_DEVICES);
        bool of_cores = !names_device(at, length);
        if (of_cores)
            YK_TRY(parse_item(&items[list->count], at, length));
        if (list->count > 0 && of_cores != list->of_cores)
            return yki_error(YK_ERROR_INVALID_ARGUMENT,
                             "devices \"%s\": the cpu and other devices cannot be mixed", text);
        list->of_cores = of_cores;
        snprintf(list->device[list->count].name, sizeof list->device[0].name, "%.*s", (int)length,
                 at);
        list->count++;
        at += length;
        if (!*at)
            return YK_OK;
    }
}

/* Takes part k of n of the cores in own, or a single core if there are fewer cores than parts. */
static void take_cores(cpu_set_t *cores, const cpu_set_t *own, int k, int n)
{
    int total = CPU_COUNT(own), begin = total * k / n, end = total * (k + 1) / n, seen = 0;
    if (total < n) {
        begin = k % total;
        end = begin + 1;
    }
    CPU_ZERO(cores);
    for (int core = 0; core < CPU_SETSIZE; core++) {
        if (!CPU_ISSET(core, own))
            continue;
        if (seen >= begin && seen < end)
            CPU_SET(core, cores);
        seen++;
    }
}

static yk_status take_parts(yki_device_list *list, const item *items, const cpu_set_t *own,
                            const char *text)
{
    bool taken[YKI_MAX_DEVICES] = {false};
    for (int i = 0; i < list->count; i++) {
        int part = items[i].first;
        if (part >= list->count)
            return yki_error(YK_ERROR_INVALID_ARGUMENT,
                             "devices \"%s\": the last of %d parts is cpu:%d; to name cores, "
                             "write cpu:A-B",
                             text, list->count, list->count - 1);
        if (taken[part])
            return yki_error(YK_ERROR_INVALID_ARGUMENT, "devices \"%s\": cpu:%d is listed twice",
                             text, part);
        taken[part] = true;
        take_cores(&list->device[i].cores, own, part, list->count);
    }
    return YK_OK;
}

static yk_status take_ranges(yki_device_list *list, const item *items, const cpu_set_t *own,
                             const char *text)
{
    cpu_set_t taken;
    CPU_ZERO(&taken);
    for (int i = 0; i < list->count; i++) {
        cpu_set_t *cores = &list->device[i].cores;
        CPU_ZERO(cores);
        for (int core = items[i].first; core <= items[i].last; core++) {
            if (core >= CPU_SETSIZE || !CPU_ISSET(core, own))
                return yki_error(YK_ERROR_INVALID_ARGUMENT,
                                 "devices \"%s\": this process may not use core %d", text, core);
            if (CPU_ISSET(core, &taken))
                return yki_error(YK_ERROR_INVALID_ARGUMENT,
                                 "devices \"%s\": core %d is listed twice", text, core);
            CPU_SET(core, &taken);
            CPU_SET(core, cores);
        }
    }
    return YK_OK;
}

static yk_status take_devices(yki_device_list *list, const cpu_set_t *own, const char *text)
{
    for (int i = 0; i < list->count; i++) {
        for (int j = 0; j < i; j++)
            if (strcmp(list->device[i].name, list->device[j].name) == 0)
                return yki_error(YK_ERROR_INVALID_ARGUMENT, "devices \"%s\": %s is listed twice",
                                 text, list->device[i].name);
        list->device[i].cores = *own;
    }
    return YK_OK;
}

yk_status yki_device_list_parse(yki_device_list *list, const char *text)
{
    item items[YKI_MAX_DEVICES] = {{0, 0}};
    cpu_set_t own;
    *list = (yki_device_list){0};
    text = text ? text : "cpu:0,cpu:1";
    YK_TRY(split(list, items, text));
    if (sched_getaffinity(0, sizeof own, &own) != 0)
        return yki_error(YK_ERROR_UNSUPPORTED,
                         "devices \"%s\": cannot determine the cores of this process", text);
    if (!list->of_cores)
        return take_devices(list, &own, text);
    for (int i = 1; i < list->count; i++)
        if ((items[i].last < 0) != (items[0].last < 0))
            return yki_error(YK_ERROR_INVALID_ARGUMENT,
                             "devices \"%s\": parts (cpu:0) and cores (cpu:0-3) cannot be mixed",
                             text);
    return items[0].last < 0 ? take_parts(list, items, &own, text)
                             : take_ranges(list, items, &own, text);
}
