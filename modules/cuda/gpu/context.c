/* What a process has once for each GPU, and keeps: the context, and the kernels in it. Making them
 * takes longer than anything else that opening a device does. */
#include <pthread.h>

#include "gpu/gpu.h"

enum { GPUS = 64 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static yki_cuda_context contexts[GPUS]; /* by their indices */

static yk_status open_context(yki_cuda_context *context, yki_cu_device number)
{
    if (!context->handle)
        YK_TRY(yki_cuda_call(DevicePrimaryCtxRetain, &context->handle, number));
    YK_TRY(yki_cuda_call(CtxSetCurrent, context->handle));
    return context->program.loaded ? YK_OK : yki_cuda_program_load(&context->program);
}

yk_status yki_cuda_context_open(const yki_cuda_context **context, int index, yki_cu_device number)
{
    if (index >= GPUS)
        return yki_error(YK_ERROR_UNSUPPORTED, "device cuda:%d: yoke uses the first %d GPUs only",
                         index, GPUS);
    pthread_mutex_lock(&lock);
    yk_status status = open_context(&contexts[index], number);
    pthread_mutex_unlock(&lock);
    if (status == YK_OK)
        *context = &contexts[index];
    return status;
}
