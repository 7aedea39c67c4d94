/*
 * Hot inner loops are compiled for each instruction set and chosen by the loader. Where the bits
 * must not depend on the processor, the file is compiled without contraction (src/CMakeLists.txt).
 */
#ifndef YKI_CLONES_H
#define YKI_CLONES_H

#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) &&                             \
    !defined(__SANITIZE_THREAD__) && !defined(__SANITIZE_ADDRESS__)
#define YKI_VECTOR_CLONES                                                                          \
    __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define YKI_VECTOR_CLONES
#endif

#endif
