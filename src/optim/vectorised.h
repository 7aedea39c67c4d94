/* How the loops over parameters are compiled. */
#ifndef YKI_VECTORISED_H
#define YKI_VECTORISED_H

/*
 * Compiled once for each width of vectors and chosen when the program starts. Sanitizers cannot
 * watch the code that chooses, which runs before they do.
 */
#if defined(__x86_64__) && defined(__gnu_linux__) && !defined(__clang__) &&                        \
    !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define YKI_VECTORISED __attribute__((target_clones("avx512f", "avx2", "default")))
#else
#define YKI_VECTORISED
#endif

#endif
