/* Networks by name, for the readers of files. */
#ifndef YKI_ARCH_H
#define YKI_ARCH_H

#include <yoke/networks.h>

/*
 * Today's name of the network that yoke called `name` before its files had format 2. At that time
 * "resnet18" was the variant for CIFAR, which is "resnet18-cifar" now, and torchvision's ResNet-18
 * was "resnet18-imagenet". Other names are returned as they are.
 */
const char *yki_arch_renamed(const char *name);

#endif
