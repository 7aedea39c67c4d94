/* The networks by name, as in a command line or a checkpoint; '-' and '_' are equivalent. */
#include "nn/arch.h"

#include <stddef.h>

typedef struct arch {
    const char *name;
    yk_arch_fn build;
} arch;

static const arch archs[] = {
    {"resnet9", yk_resnet9},
    {"resnet18-cifar", yk_resnet18_cifar},
    {"resnet18", yk_resnet18},
    {"resnet34", yk_resnet34},
    {"resnet50", yk_resnet50},
    {"resnet101", yk_resnet101},
    {"resnet152", yk_resnet152},
    {"wide-resnet50-2", yk_wide_resnet50_2},
    {"wide-resnet101-2", yk_wide_resnet101_2},
    {"resnext50-32x4d", yk_resnext50_32x4d},
    {"resnext101-32x8d", yk_resnext101_32x8d},
    {"resnext101-64x4d", yk_resnext101_64x4d},
    {"alexnet", yk_alexnet},
    {"vgg11", yk_vgg11},
    {"vgg11-bn", yk_vgg11_bn},
    {"vgg13", yk_vgg13},
    {"vgg13-bn", yk_vgg13_bn},
    {"vgg16", yk_vgg16},
    {"vgg16-bn", yk_vgg16_bn},
    {"vgg19", yk_vgg19},
    {"vgg19-bn", yk_vgg19_bn},
    {"mobilenet-v2", yk_mobilenet_v2},
    {"mobilenet-v3-large", yk_mobilenet_v3_large},
    {"mobilenet-v3-small", yk_mobilenet_v3_small},
    {"mnasnet0-5", yk_mnasnet0_5},
    {"mnasnet0-75", yk_mnasnet0_75},
    {"mnasnet1-0", yk_mnasnet1_0},
    {"mnasnet1-3", yk_mnasnet1_3},
    {"shufflenet-v2-x0-5", yk_shufflenet_v2_x0_5},
    {"shufflenet-v2-x1-0", yk_shufflenet_v2_x1_0},
    {"shufflenet-v2-x1-5", yk_shufflenet_v2_x1_5},
    {"shufflenet-v2-x2-0", yk_shufflenet_v2_x2_0},
    {"efficientnet-b0", yk_efficientnet_b0},
    {"efficientnet-b1", yk_efficientnet_b1},
    {"efficientnet-b2", yk_efficientnet_b2},
    {"efficientnet-b3", yk_efficientnet_b3},
    {"efficientnet-b4", yk_efficientnet_b4},
    {"efficientnet-b5", yk_efficientnet_b5},
    {"efficientnet-b6", yk_efficientnet_b6},
    {"efficientnet-b7", yk_efficientnet_b7},
    {"efficientnet-v2-s", yk_efficientnet_v2_s},
    {"efficientnet-v2-m", yk_efficientnet_v2_m},
    {"efficientnet-v2-l", yk_efficientnet_v2_l},
    {"regnet-y-400mf", yk_regnet_y_400mf},
    {"regnet-y-800mf", yk_regnet_y_800mf},
    {"regnet-y-1-6gf", yk_regnet_y_1_6gf},
    {"regnet-y-3-2gf", yk_regnet_y_3_2gf},
    {"regnet-y-8gf", yk_regnet_y_8gf},
    {"regnet-y-16gf", yk_regnet_y_16gf},
    {"regnet-y-32gf", yk_regnet_y_32gf},
    {"regnet-y-128gf", yk_regnet_y_128gf},
    {"regnet-x-400mf", yk_regnet_x_400mf},
    {"regnet-x-800mf", yk_regnet_x_800mf},
    {"regnet-x-1-6gf", yk_regnet_x_1_6gf},
    {"regnet-x-3-2gf", yk_regnet_x_3_2gf},
    {"regnet-x-8gf", yk_regnet_x_8gf},
    {"regnet-x-16gf", yk_regnet_x_16gf},
    {"regnet-x-32gf", yk_regnet_x_32gf},
    {"densenet121", yk_densenet121},
    {"densenet161", yk_densenet161},
    {"densenet169", yk_densenet169},
    {"densenet201", yk_densenet201},
    {"squeezenet1-0", yk_squeezenet1_0},
    {"squeezenet1-1", yk_squeezenet1_1},
    {"googlenet", yk_googlenet},
    {"convnext-tiny", yk_convnext_tiny},
    {"convnext-small", yk_convnext_small},
    {"convnext-base", yk_convnext_base},
    {"convnext-large", yk_convnext_large},
    {"swin-t", yk_swin_t},
    {"swin-s", yk_swin_s},
    {"swin-b", yk_swin_b},
    {"swin-v2-t", yk_swin_v2_t},
    {"swin-v2-s", yk_swin_v2_s},
    {"swin-v2-b", yk_swin_v2_b},
    {"vit-b-16", yk_vit_b_16},
    {"vit-b-32", yk_vit_b_32},
    {"vit-l-16", yk_vit_l_16},
    {"vit-l-32", yk_vit_l_32},
    {"vit-h-14", yk_vit_h_14},
    {"vit-tiny-patch4-32", yk_vit_tiny_patch4_32},
    {"airbench94", yk_airbench94},
    {"airbench96", yk_airbench96},
    {"mlp", yk_mlp},
};

enum { ARCHS = sizeof archs / sizeof *archs };

static char dashed(char c)
{
    return c == '_' ? '-' : c;
}

static bool same_name(const char *a, const char *b)
{
    for (; *a && dashed(*a) == dashed(*b); a++)
        b++;
    return dashed(*a) == dashed(*b);
}

const char *yk_arch_name(size_t index)
{
    return index < ARCHS ? archs[index].name : NULL;
}

yk_arch_fn yk_arch_find(const char *name)
{
    for (size_t i = 0; i < ARCHS && name; i++)
        if (same_name(archs[i].name, name))
            return archs[i].build;
    return NULL;
}

const char *yki_arch_renamed(const char *name)
{
    return same_name(name, "resnet18")            ? "resnet18-cifar"
           : same_name(name, "resnet18-imagenet") ? "resnet18"
                                                  : name;
}
