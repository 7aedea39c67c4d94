/* First values against what torch.manual_seed(0) and torch.nn.init gave (PyTorch 1.13, CPU): to the
 * bit, except for tensors too small for its vector code. */
#include "harness.h"

#include <math.h>
#include <string.h>

#include "tensor/init.h"

static void assert_close(double value, double expected)
{
    if (!(fabs(value - expected) <= 2e-6 * (1 + fabs(expected))))
        fail_msg("%.9g is not %.9g", value, expected);
}

static yki_mt19937 seeded(void)
{
    yki_mt19937 generator;
    yki_mt19937_init(&generator, 0);
    return generator;
}

YK_TEST(normal_is_torchs)
{
    float data[108];
    yk_tensor weight = {.data = data, .dtype = YK_F32, .ndim = 4, .dims = {4, 3, 3, 3}};
    yki_mt19937 generator = seeded();
    assert_ok(yki_init_tensor(&generator, YK_INIT_KAIMING_NORMAL_FAN_OUT, 0, &weight));
    const double first[] = {-0.26536300778388977, -0.2716138958930969, -0.059061937034130096};
    const double last[] = {-0.10930036753416061, 0.45296844840049744, -0.09488089382648468};
    for (int i = 0; i < 3; i++) {
        assert_true(data[i] == (float)first[i]);
        assert_true(data[105 + i] == (float)last[i]);
    }
}

YK_TEST(skipping_is_drawing_for_nobody)
{
    for (int64_t words = 0; words < 2000; words += 207) {
        yki_mt19937 drawn = seeded(), skipped = seeded();
        for (int64_t i = 0; i < words; i++)
            yki_mt19937_next(&drawn);
        yki_mt19937_skip(&skipped, words / 3);
        yki_mt19937_skip(&skipped, words - words / 3);
        assert_true(yki_mt19937_next(&drawn) == yki_mt19937_next(&skipped));
    }
}

YK_TEST(many_numbers_are_those_drawn_one_by_one)
{
    float many[1500];
    yki_mt19937 single = seeded(), bulk = seeded();
    for (int64_t i = 0, count = 1; i + count <= 1500; i += count, count = count * 2 + 1)
        yki_mt19937_uniform24(&bulk, many + i, count);
    for (int64_t i = 0; i < 1013; i++) /* 1 + 3 + 7 + ... + 511 - 1, over two refills */
        assert_true(many[i] == (float)(yki_mt19937_next(&single) & 0xffffff) / 16777216.0f);
}

YK_TEST(normal_of_a_small_tensor_is_torchs)
{
    float data[6];
    yk_tensor weight = {.data = data, .dtype = YK_F32, .ndim = 2, .dims = {2, 3}};
    yki_mt19937 generator = seeded();
    assert_ok(yki_init_tensor(&generator, YK_INIT_KAIMING_NORMAL_FAN_OUT, 0, &weight));
    const double expected[] = {1.5410, -0.2934, -2.1788, 0.5684, -1.0845, -1.3986};
    for (int i = 0; i < 6; i++)
        assert_true(fabs(data[i] - expected[i]) < 1e-4);
}

/* The spare number of a pair is kept from one tensor to the next, past larger ones. */
YK_TEST(normal_of_odd_small_tensors_is_torchs)
{
    float data[3], large[20], next[3];
    yk_tensor first = {.data = data, .dtype = YK_F32, .ndim = 2, .dims = {1, 3}},
              second = {.data = next, .dtype = YK_F32, .ndim = 2, .dims = {1, 3}};
    yk_tensor between = {.data = large, .dtype = YK_F32, .ndim = 2, .dims = {4, 5}};
    yki_mt19937 generator = seeded();
    assert_ok(yki_init_tensor(&generator, YK_INIT_KAIMING_NORMAL_FAN_OUT, 0, &first));
    assert_ok(yki_init_tensor(&generator, YK_INIT_KAIMING_NORMAL_FAN_OUT, 0, &between));
    assert_ok(yki_init_tensor(&generator, YK_INIT_KAIMING_NORMAL_FAN_OUT, 0, &second));
    const double deviation = sqrt(2); /* fan_out is 1 */
    const double expected[] = {1.5410, -0.2934, -2.1788};
    for (int i = 0; i < 3; i++)
        assert_true(fabs(data[i] / deviation - expected[i]) < 1e-4);
    assert_true(fabs(next[0] / deviation - 0.5684) < 1e-4);
}

YK_TEST(linear_is_torchs)
{
    float weight[15], bias[3];
    yk_tensor w = {.data = weight, .dtype = YK_F32, .ndim = 2, .dims = {3, 5}},
              b = {.data = bias, .dtype = YK_F32, .ndim = 1, .dims = {3}};
    yki_mt19937 generator = seeded();
    assert_ok(yki_init_tensor(&generator, YK_INIT_KAIMING_UNIFORM, 0, &w));
    assert_ok(yki_init_tensor(&generator, YK_INIT_UNIFORM_FAN_IN, 5, &b));
    assert_true(weight[0] == -0.003348207799717784f);
    assert_true(weight[14] == -0.18435177206993103f);
    assert_true(bias[0] == 0.016566388309001923f);
    assert_true(bias[2] == 0.2683383524417877f);
}

/* torch.manual_seed(0); xavier_uniform_(empty(3, 5)) */
YK_TEST(xavier_is_torchs)
{
    float weight[15];
    yk_tensor w = {.data = weight, .dtype = YK_F32, .ndim = 2, .dims = {3, 5}};
    yki_mt19937 generator = seeded();
    assert_ok(yki_init_tensor(&generator, YK_INIT_XAVIER_UNIFORM, 0, &w));
    assert_true(weight[0] == -0.006483776494860649f);
    assert_true(weight[14] == -0.35699567198753357f);
}

/* torch.manual_seed(0); normal_(empty(4, 3, 3, 3), std=...) */
YK_TEST(normal_numbers_of_transformers_have_torchs_deviations)
{
    static const yk_init inits[] = {YK_INIT_NORMAL_FAN_IN, YK_INIT_NORMAL_0_02,
                                    YK_INIT_NORMAL_1E_6};
    const double deviations[] = {1 / sqrt(27), 0.02, 1e-6};
    for (int i = 0; i < 3; i++) {
        float data[108];
        yk_tensor weight = {.data = data, .dtype = YK_F32, .ndim = 4, .dims = {4, 3, 3, 3}};
        yki_mt19937 generator = seeded();
        assert_ok(yki_init_tensor(&generator, inits[i], 0, &weight));
        assert_close(data[0] / deviations[i], -1.1258398294448853);
        assert_close(data[107] / deviations[i], -0.4025455415248871);
    }
}

YK_TEST(f64_starts_where_f32_does)
{
    float single[50];
    double twice[50];
    yk_tensor a = {.data = single, .dtype = YK_F32, .ndim = 2, .dims = {5, 10}},
              b = {.data = twice, .dtype = YK_F64, .ndim = 2, .dims = {5, 10}};
    yki_mt19937 generator = seeded();
    assert_ok(yki_init_tensor(&generator, YK_INIT_KAIMING_NORMAL_FAN_OUT, 0, &a));
    generator = seeded();
    assert_ok(yki_init_tensor(&generator, YK_INIT_KAIMING_NORMAL_FAN_OUT, 0, &b));
    for (int i = 0; i < 50; i++)
        assert_close(single[i], twice[i]);
}

YK_TEST(zeros_and_ones_of_every_dtype)
{
    for (int dtype = 0; dtype < YK_DTYPE_COUNT; dtype++) {
        _Alignas(8) unsigned char data[24];
        yk_tensor tensor = {.data = data, .dtype = (yk_dtype)dtype, .ndim = 1, .dims = {3}};
        assert_ok(yki_init_tensor(NULL, YK_INIT_ONES, 0, &tensor));
        assert_memory_equal(data, data + yk_dtype_size(tensor.dtype), yk_dtype_size(tensor.dtype));
        assert_ok(yki_init_tensor(NULL, YK_INIT_ZEROS, 0, &tensor));
        for (size_t i = 0; i < yk_tensor_bytes(&tensor); i++)
            assert_int_equal(data[i], 0);
    }
    int64_t count = 7;
    yk_tensor scalar = {.data = &count, .dtype = YK_I64, .ndim = 0};
    assert_ok(yki_init_tensor(NULL, YK_INIT_ONES, 0, &scalar));
    assert_int_equal(count, 1);
}

YK_TEST(integers_cannot_be_drawn)
{
    int32_t data[4];
    yk_tensor tensor = {.data = data, .dtype = YK_I32, .ndim = 1, .dims = {4}};
    yki_mt19937 generator = seeded();
    assert_status(YK_ERROR_UNSUPPORTED,
                  yki_init_tensor(&generator, YK_INIT_KAIMING_UNIFORM, 0, &tensor));
    assert_contains(yk_last_error(), "int32");
}

/* ---- recipes: the functions of torch.nn.init after torch.manual_seed(0) ---------------------- */

static yk_tensor filter_of(void *data, yk_dtype dtype)
{
    return (yk_tensor){.data = data, .dtype = dtype, .ndim = 4, .dims = {4, 3, 3, 3}};
}

static void draw(yk_tensor *tensor, yki_recipe recipe)
{
    yki_mt19937 generator = seeded();
    assert_ok(yki_init_with(&generator, &recipe, tensor));
}

YK_TEST(uniform_numbers_between_any_two_are_torchs)
{
    float data[15];
    yk_tensor tensor = {.data = data, .dtype = YK_F32, .ndim = 2, .dims = {3, 5}};
    draw(&tensor, (yki_recipe){.kind = YKI_UNIFORM, .a = -1, .b = 3});
    assert_true(data[0] == 0.9850263595581055f && data[14] == 0.1755537986755371f);
}

YK_TEST(normal_numbers_around_a_mean_are_torchs)
{
    float data[108];
    yk_tensor tensor = filter_of(data, YK_F32);
    draw(&tensor, (yki_recipe){.kind = YKI_NORMAL, .mean = 2, .std = 0.5});
    assert_true(data[0] == 1.4370801448822021f && data[107] == 1.79872727394104f);
    tensor.ndim = 1;
    tensor.dims[0] = 6;
    draw(&tensor, (yki_recipe){.kind = YKI_NORMAL, .mean = 2, .std = 0.5});
    const double small[] = {2.770498037338257,  1.853285551071167,  0.9106053113937378,
                            2.2842156887054443, 1.4577388763427734, 1.3007023334503174};
    for (int i = 0; i < 6; i++)
        assert_close(data[i], small[i]);
}

YK_TEST(deviations_from_shapes_are_torchs)
{
    float data[108];
    yk_tensor tensor = filter_of(data, YK_F32);
    draw(&tensor, (yki_recipe){.kind = YKI_NORMAL, .scale = YKI_SCALE_XAVIER, .gain = 2});
    assert_true(data[0] == -0.4011911451816559f && data[107] == -0.1434464305639267f);
    draw(&tensor, (yki_recipe){.kind = YKI_UNIFORM, .scale = YKI_SCALE_FAN_OUT, .gain = sqrt(2)});
    assert_true(data[0] == -0.0030564817134290934f && data[107] == -0.3149050772190094f);
}

/* PyTorch 2.15. Of the first eight numbers, the fifth, sixth and eighth are drawn again. */
YK_TEST(numbers_of_a_truncated_normal_distribution_are_torchs)
{
    float data[100], wide[100];
    double twice[100];
    yk_tensor tensor = {.data = data, .dtype = YK_F32, .ndim = 2, .dims = {10, 10}};
    yki_recipe recipe = {.kind = YKI_TRUNC_NORMAL, .mean = 0.5, .std = 1, .a = -1, .b = 1};
    draw(&tensor, recipe);
    const float first[] = {-0.6258398294448853f, -0.652360200881958f,   0.24942141771316528f,
                           0.0661211907863617f,  -0.20152360200881958f, 0.4035453200340271f,
                           0.18398723006248474f, -0.7787652015686035f};
    assert_memory_equal(data, first, sizeof first);
    assert_true(data[50] == 0.6507848501205444f && data[99] == 0.7329182624816895f);
    for (int i = 0; i < 100; i++)
        assert_true(data[i] >= -1 && data[i] <= 1);

    tensor = (yk_tensor){.data = twice, .dtype = YK_F64, .ndim = 1, .dims = {100}};
    draw(&tensor, recipe);
    for (int i = 0; i < 100; i++)
        assert_true(twice[i] == data[i]);

    tensor = (yk_tensor){.data = wide, .dtype = YK_F32, .ndim = 1, .dims = {100}};
    recipe.a = -(recipe.b = 100);
    draw(&tensor, recipe);
    tensor.data = data;
    recipe.kind = YKI_NORMAL;
    draw(&tensor, recipe);
    assert_memory_equal(data, wide, sizeof wide);
}

/* Rows, or columns, i and j of a matrix. */
static double product(const float *data, int64_t columns, bool of_rows, int64_t i, int64_t j,
                      int64_t length)
{
    double sum = 0;
    for (int64_t k = 0; k < length; k++)
        sum += of_rows ? (double)data[i * columns + k] * data[j * columns + k]
                       : (double)data[k * columns + i] * data[k * columns + j];
    return sum;
}

static void check_orthogonal(int64_t rows, int64_t columns)
{
    static float data[90 * 90];
    yk_tensor tensor = {.data = data, .dtype = YK_F32, .ndim = 2, .dims = {rows, columns}};
    draw(&tensor, (yki_recipe){.kind = YKI_ORTHOGONAL, .gain = 3});
    bool of_rows = rows < columns;
    int64_t count = of_rows ? rows : columns, length = of_rows ? columns : rows;
    for (int64_t i = 0; i < count; i++)
        for (int64_t j = 0; j < count; j++)
            assert_true(fabs(product(data, columns, of_rows, i, j, length) - 9 * (i == j)) < 1e-5);
}

YK_TEST(orthogonal_matrices_of_all_shapes_are_orthogonal)
{
    static const int64_t sizes[] = {1, 2, 15, 16, 17, 33, 90};
    for (int i = 0; i < 7; i++)
        for (int j = 0; j < 7; j++)
            check_orthogonal(sizes[i], sizes[j]);
}

YK_TEST(orthogonal_matrices_are_torchs)
{
    float data[24];
    yk_tensor tall = {.data = data, .dtype = YK_F32, .ndim = 2, .dims = {5, 4}},
              wide = {.data = data, .dtype = YK_F32, .ndim = 3, .dims = {3, 2, 4}};
    const double tall_torch[] = {-1.044879674911499,   -0.2356444150209427, 0.8515211343765259,
                                 -1.0754159688949585,  0.5557763576507568,  -1.819039225578308,
                                 -0.25482305884361267, 0.15344399213790894, 0.4344351291656494,
                                 -0.47316256165504456, 1.3116816282272339,  -0.4590613842010498,
                                 1.289455533027649,    0.43809816241264343, -0.4124501049518585,
                                 -1.3636294603347778,  0.8648180961608887,  0.46877995133399963,
                                 1.14863121509552,     0.865859866142273},
                 wide_torch[] = {-0.7669386863708496,  -0.7850049138069153,  -0.17069785296916962,
                                 -0.2955646812915802,  0.5781540870666504,   0.4714069366455078,
                                 -0.21527259051799774, -1.4409189224243164,  0.551668107509613,
                                 -0.14519988000392914, 1.6158627271652222,   0.3080786168575287,
                                 0.16300812363624573,  0.9562755823135376,   -0.15153561532497406,
                                 -0.06824405491352081, 0.4926339089870453,   1.1229208707809448,
                                 0.4133441150188446,   -0.06725379824638367, 0.15662001073360443,
                                 -0.960104763507843,   -0.40677300095558167, -1.0996315479278564};
    draw(&tall, (yki_recipe){.kind = YKI_ORTHOGONAL, .gain = 2});
    for (int i = 0; i < 20; i++)
        assert_close(data[i], tall_torch[i]);
    draw(&wide, (yki_recipe){.kind = YKI_ORTHOGONAL, .gain = 2});
    for (int i = 0; i < 24; i++)
        assert_close(data[i], wide_torch[i]);
}
