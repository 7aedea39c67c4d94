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
