/* A batch of rows of numbers, "x". */
#ifndef YK_TEST_ROWS_H
#define YK_TEST_ROWS_H

#include <yoke/yoke.h>

enum { ROWS = 3, COLUMNS = 4 };

static float numbers[ROWS * COLUMNS] = {1, -2, 3, 0.5f, -1, 2, 0.25f, 1, -3, 1.5f, 2, -0.5f};
static const char *const batch_names[] = {"x"};
static const yk_tensor batch_tensors[] = {
    {.data = numbers, .dtype = YK_F32, .ndim = 2, .dims = {ROWS, COLUMNS}}};
static const yk_batch batch = {
    .size = ROWS, .count = 1, .names = batch_names, .tensors = batch_tensors};

#endif
