/* What the fake driver has, and what has failed. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "fake_driver.h"
#include "internal.h"
#include "simulator.h"

static yki_sim *sim;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int failure;
static _Thread_local const struct CUctx_st *current;

long fake_setting(const char *name, long otherwise)
{
    const char *text = getenv(name);
    return text ? strtol(text, NULL, 10) : otherwise;
}

int fake_gpu_count(void)
{
    long count = fake_setting("YK_FAKE_GPUS", 1);
    return count < FAKE_GPUS ? (int)count : FAKE_GPUS;
}

yki_sim *fake_sim(void)
{
    return sim;
}

bool fake_start(void)
{
    static const yki_device_options options = {.threads = 1};
    yki_device *made = NULL;
    pthread_mutex_lock(&lock);
    if (!sim && yki_device_sim.create(&made, &options) == YK_OK) {
        sim = (yki_sim *)made;
        sim->foreign = &fake_memory;
    }
    pthread_mutex_unlock(&lock);
    return sim;
}

int fake_current(void)
{
    return current ? current->gpu : -1;
}

int yk_fake_current(void)
{
    return fake_current();
}

void fake_set_current(const struct CUctx_st *context)
{
    current = context;
}

int fake_failure(void)
{
    pthread_mutex_lock(&lock);
    int result = failure;
    pthread_mutex_unlock(&lock);
    return result;
}

void fake_fail(int result, const char *text)
{
    pthread_mutex_lock(&lock);
    if (!failure)
        failure = result;
    pthread_mutex_unlock(&lock);
    fprintf(stderr, "fake CUDA driver: %s\n", text);
}

yki_cu_function fake_function(int gpu, const char *name)
{
    static struct CUfunc_st *functions;
    const yk_sim_kernel *kernel = yk_sim_find(name);
    if (!kernel)
        return NULL;
    pthread_mutex_lock(&lock);
    struct CUfunc_st *found = functions;
    while (found && (found->kernel != kernel || found->gpu != gpu))
        found = found->next;
    if (!found && (found = malloc(sizeof *found))) {
        *found = (struct CUfunc_st){kernel, gpu, functions};
        functions = found;
    }
    pthread_mutex_unlock(&lock);
    return found;
}
