/*
 * The program of the ModelArts tutorial against its original: on the same files, in two processes
 * started by hand, and PyTorch's network of that tutorial with its checkpoint.
 */
#define _GNU_SOURCE
#include "pytorch.h"

#include <stdlib.h>
#include <string.h>

#include "../data/cifar_files.h"
#include "harness.h"

YK_TEST(checkpoints_of_resnet18_cifar10_are_the_tutorials)
{
    char output[8192];
    const char *folder = yk_test_directory();
    write_cifar(folder, false, 70);
    int code = yk_test_command(
        output, sizeof output,
        "export OMP_NUM_THREADS=1; A='%s/resnet18_cifar10 --init_method tcp://127.0.0.1:%d "
        "--world_size 2 --data_url %s --output_dir %s/out --epochs 2 --lr 0.001 --width 16 "
        "--enable_gpu false' && { $A --rank 1 & } && $A --rank 0 && wait",
        getenv("YOKE_EXAMPLES"), yk_test_free_port(), folder, folder);
    if (code)
        fail_msg("exit code %d: %s", code, output);
    double loss = -1, accuracy = -1;
    const char *line = strstr(output, "val | epoch: 2");
    if (!line || sscanf(line, "val | epoch: 2 | loss: %lf | accuracy: %lf", &loss, &accuracy) != 2)
        fail_msg("no validation of epoch 2: %s", output);
    pytorch_judges("modelarts.py", "%s %s/out/epoch_2.pth 16 %.17g %.17g", folder, folder, loss,
                   accuracy);
}
