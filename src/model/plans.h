/*
 * The programs of a model: a plan for each batch size and mode that has occurred, with what has
 * been recorded of it. They share packed weights, and one arena, since one of them runs at a time.
 */
#ifndef YKI_PLANS_H
#define YKI_PLANS_H

#include "device/tape.h"
#include "model/packs.h"

typedef struct yki_program {
    yki_plan *plan;
    yki_tape packing; /* of the parameters that its kernels want packed */
    yki_tape forward;
    /* That sets the gradients, and that adds to them; without and with the work of hooks. */
    yki_tape backward[2][2];
} yki_program;

typedef struct yki_plans {
    yki_program **list;
    size_t count;
    yki_packs packs;
    void *arena;        /* in the device's memory; NULL while it is released */
    size_t arena_bytes; /* the most that a plan has needed so far */
    uint64_t moves;     /* of the arena */
} yki_plans;

/* The program for this batch size and mode; NULL if there is none. */
yki_program *yki_plans_find(const yki_plans *plans, int64_t batch, yki_plan_mode mode);
/* Makes it. A device may measure kernels for it, and needs memory for that. */
yk_status yki_plans_add(yki_plans *plans, const yki_plan_source *source, int64_t batch,
                        yki_plan_mode mode, yki_program **program);
/* Waits for the device, and gives it the arena's memory until that is reserved again; a host device
 * keeps it. */
yk_status yki_plans_release(yki_plans *plans, yki_device *device);
/* Makes the arena large enough for the plan; waits for the device where it must grow. */
yk_status yki_plans_reserve(yki_plans *plans, yki_device *device, const yki_plan *plan);
/* Once the device has done all that was entered: they are made again where they are needed. */
void yki_plans_clear(yki_plans *plans, yki_device *device);
/* Once what they have entered is done: what hooks have put into them is about to go. */
void yki_plans_drop_recordings(yki_plans *plans);
/* Once the device has done all that was entered. */
void yki_plans_destroy(yki_plans *plans, yki_device *device);

/* Where the scratch memory of a step lies; NULL if it needs none. */
void *yki_plans_scratch(const yki_plans *plans, const yki_plan *plan, const yki_step *step);

#endif
