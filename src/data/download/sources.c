/* What can be downloaded, from where. Addresses and MD5 sums are those of the data sets' own pages
 * and of torchvision. */
#include <yoke/readers.h>

#include "data/download/download.h"

const yki_archive yki_cifar10_archive = {
    .title = "CIFAR-10",
    .folders = {"cifar-10-batches-py", "cifar-10-batches-bin"},
    .members = {{"data_batch_1", "data_batch_2", "data_batch_3", "data_batch_4", "data_batch_5",
                 "test_batch", "batches.meta", "readme.html"},
                {"data_batch_1.bin", "data_batch_2.bin", "data_batch_3.bin", "data_batch_4.bin",
                 "data_batch_5.bin", "test_batch.bin", "batches.meta.txt", "readme.html"}},
    .most_bytes = (size_t)64 << 20};

const yki_archive yki_cifar100_archive = {
    .title = "CIFAR-100",
    .folders = {"cifar-100-python", "cifar-100-binary"},
    .members = {{"train", "test", "meta", "file.txt~"},
                {"train.bin", "test.bin", "coarse_label_names.txt", "fine_label_names.txt"}},
    .most_bytes = (size_t)256 << 20};

static const yki_source_file cifar10_files[] = {
    {"cifar-10-python.tar.gz",
     {"c58f30108f718f92721af3b95e74349a", "c32a1d4ab5d03f1284b67883e8d87530"}}};

static const yki_source_file cifar100_files[] = {
    {"cifar-100-python.tar.gz",
     {"eb9058c3a382ffc7106e4002c42a8d85", "03b5dce01913d631647c71ecec9e9cb8"}}};

static const yki_source_file mnist_files[] = {
    {"train-images-idx3-ubyte.gz", {"f68b3c2dcbeaaa9fbdd348bbdeb94873"}},
    {"train-labels-idx1-ubyte.gz", {"d53e105ee54ea40749a09fcbcd1e9432"}},
    {"t10k-images-idx3-ubyte.gz", {"9fb629c4189551a2d022fa330f9573f3"}},
    {"t10k-labels-idx1-ubyte.gz", {"ec29112dd5afa0611ce80d1b7f02629c"}}};

static const yki_source_file fashion_mnist_files[] = {
    {"train-images-idx3-ubyte.gz", {"8d4fb7e6c68d591d4c3dfef9ec88bf0d"}},
    {"train-labels-idx1-ubyte.gz", {"25c81989df183df01b3e8a0aad5dffbe"}},
    {"t10k-images-idx3-ubyte.gz", {"bef4ecab320f06d8554ea6380940ec79"}},
    {"t10k-labels-idx1-ubyte.gz", {"bb300cfdad3c16e7a12a480ee83cd310"}}};

static const yki_source sources[] = {
    {.name = "cifar10",
     .title = "CIFAR-10",
     .variable = "YOKE_CIFAR10",
     .mirrors = {"https://www.cs.toronto.edu/~kriz/"},
     .archive = &yki_cifar10_archive,
     .folders = {"cifar-10-batches-py", "cifar-10-batches-bin"},
     .files = cifar10_files,
     .file_count = 1,
     .open = yk_cifar10_open},
    {.name = "cifar100",
     .title = "CIFAR-100",
     .variable = "YOKE_CIFAR100",
     .mirrors = {"https://www.cs.toronto.edu/~kriz/"},
     .archive = &yki_cifar100_archive,
     .folders = {"cifar-100-python", "cifar-100-binary"},
     .files = cifar100_files,
     .file_count = 1,
     .open = yk_cifar100_open},
    {.name = "mnist",
     .title = "MNIST",
     .variable = "YOKE_MNIST",
     .mirrors = {"https://ossci-datasets.s3.amazonaws.com/mnist/",
                 "http://yann.lecun.com/exdb/mnist/"},
     .folders = {"mnist"},
     .files = mnist_files,
     .file_count = 4,
     .open = yk_mnist_open},
    {.name = "fashion-mnist",
     .title = "Fashion-MNIST",
     .variable = "YOKE_FASHION_MNIST",
     .mirrors = {"http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/"},
     .folders = {"fashion-mnist"},
     .files = fashion_mnist_files,
     .file_count = 4,
     .open = yk_fashion_mnist_open},
};

enum { SOURCES = sizeof sources / sizeof *sources };

const yki_source *yki_source_at(int index)
{
    return index >= 0 && index < SOURCES ? &sources[index] : NULL;
}

const char *yk_download_name(int index)
{
    const yki_source *source = yki_source_at(index);
    return source ? source->name : NULL;
}
