/* The recipe's options in a run: what is said, what the rate does, going on, averaged weights. */
#define _GNU_SOURCE
#include "going_on.h"
#include "mlp.h"

#include <math.h>

#include "harness.h"

/* 20 steps an epoch. */
#define RECIPE                                                                                     \
    "--batch-size 250 --nesterov --no-decay-norms --clip-grad-norm 0.5 --ema 0.9 "                 \
    "--label-smoothing 0.1 --schedule cosine --schedule-unit step --warmup-steps 10 --nproc 2 "

YK_TEST(promise_23_the_start_says_where_the_rate_comes_from)
{
    assert_int_equal(train("a", "--max-steps 1 --lr-scale linear --epochs 4 " RECIPE), 0);
    static const char *const words[] = {
        "learning rate 0.04 = 0.02 (--lr) x 2 ranks (--lr-scale linear)",
        "Nesterov momentum 0.9, weight decay 0.0005, not on norms and biases",
        "cosine over 70 steps to 0, after a warm-up of 10 steps from 0.0133",
        "label smoothing 0.1",
        "clipped to a norm of 0.5",
        "decay 0.9"};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        assert_contains(unwrapped(), words[i]);
    assert_int_equal(train("b", "--max-steps 1 --nproc 3 --batch-size 120 --lr-scale sqrt"), 0);
    assert_contains(unwrapped(), "0.034641 = 0.02 (--lr) x sqrt(3 ranks) (--lr-scale sqrt)");
    assert_int_equal(train("c", "--max-steps 1 --schedule multistep --milestones 3,5"), 0);
    assert_contains(unwrapped(), "multistep after 3 epochs, 5 epochs x 0.1");
}

/* The rates of all steps in metrics.jsonl. */
static int read_rates(const char *name, double *rates, int most)
{
    int found = 0;
    for (const char *at = metrics_of(name); (at = strstr(at, "\"lr\":")) && found < most; at++)
        rates[found++] = strtod(at + 5, NULL);
    return found;
}

YK_TEST(rates_change_by_the_epoch_or_by_the_step)
{
    double rates[100];
    assert_int_equal(
        train("a", "--batch-size 500 --epochs 3 --schedule step --step-size 2 --gamma 0.5"), 0);
    assert_int_equal(read_rates("a", rates, 100), 30);
    for (int i = 0; i < 30; i++)
        assert_true(fabs(rates[i] - (i < 20 ? 0.02 : 0.01)) < 1e-9);
    assert_int_equal(train("b", "--batch-size 500 --epochs 1 --schedule onecycle"), 0);
    assert_int_equal(read_rates("b", rates, 100), 10);
    assert_true(fabs(rates[0] - 0.02 / 25) < 1e-9);
    assert_true(fabs(rates[2] - 0.02) < 1e-9);
    assert_true(fabs(rates[9] - 0.02 / 25e4) < 1e-9);
}

/* Each run of two epochs is stopped in the first and goes on, with the schedule of its options. */
YK_TEST(restarts_polynomials_and_exponentials_go_on)
{
    const struct {
        const char *options, *words;
        double first, last; /* rates of the last step of each epoch */
    } runs[] = {
        {"--schedule warmrestarts --t-0 4 --t-mult 2 --eta-min 0.01 --schedule-unit step",
         "warmrestarts after 4 steps, then each time after 2 times as many, falling to 0.01",
         0.01 + 0.005 * (1 + cos(M_PI * 5 / 8)), 0.01 + 0.005 * (1 + cos(M_PI * 7 / 16))},
        {"--schedule polynomial --power 2 --warmup-steps 5 --schedule-unit step",
         "polynomial over 15 steps to 0, power 2, after a warm-up of 5 steps",
         0.02 * pow(11.0 / 15, 2), 0.02 * pow(1.0 / 15, 2)},
        {"--schedule exponential --gamma 0.5", "exponential, every epoch x 0.5", 0.02, 0.01}};
    char command[256], name[2] = "a";
    double rates[100];
    for (size_t i = 0; i < sizeof runs / sizeof *runs; i++, name[0]++) {
        snprintf(command, sizeof command, "--batch-size 500 --epochs 2 --max-steps 7 %s",
                 runs[i].options);
        assert_int_equal(train(name, command), 0);
        assert_contains(unwrapped(), runs[i].words);
        assert_int_equal(go_on(name, "--max-steps 100"), 0);
        assert_contains(unwrapped(), runs[i].words);
        assert_null(strstr(unwrapped(), "was saved with the learning-rate schedule"));
        assert_int_equal(read_rates(name, rates, 100), 20);
        assert_true(fabs(rates[9] - runs[i].first) < 1e-9);
        assert_true(fabs(rates[19] - runs[i].last) < 1e-9);
    }
}

/* What a checkpoint of the mlp holds. */
typedef struct loaded {
    yk_model *model;
    yk_optimizer *optimizer;
    yk_ema *ema;
} loaded;

static loaded load(const char *path)
{
    loaded l = {.model = test_mlp()};
    assert_ok(
        yk_sgd_create(&l.optimizer, l.model,
                      YK_WITH(yk_sgd_options, YK_SGD_OPTIONS_INIT, o.lr = 1, o.momentum = 0.9)));
    assert_ok(yk_ema_create(&l.ema, l.optimizer, NULL));
    assert_ok(yk_checkpoint_load(path, l.model, l.optimizer, NULL));
    return l;
}

static void unload(loaded l)
{
    yk_ema_destroy(l.ema);
    yk_optimizer_destroy(l.optimizer);
    yk_model_destroy(l.model);
}

static void assert_same_bits(yk_tensor a, yk_tensor b)
{
    assert_memory_equal(a.data, b.data, yk_tensor_bytes(&a));
}

static void assert_same_checkpoints(const char *file)
{
    loaded a = load(path_of("whole", file)), b = load(path_of("parts", file));
    const char *name;
    yk_tensor left, right;
    for (size_t i = 0; i < yk_model_parameter_count(a.model); i++) {
        assert_same_bits(yk_model_parameter(a.model, i).value,
                         yk_model_parameter(b.model, i).value);
        assert_same_bits(yk_ema_value(a.ema, i), yk_ema_value(b.ema, i));
        assert_true(yk_optimizer_state(a.optimizer, i, 0, &name, &left));
        assert_true(yk_optimizer_state(b.optimizer, i, 0, &name, &right));
        assert_same_bits(left, right);
    }
    assert_int_equal(yk_ema_updates(a.ema), 60);
    assert_int_equal(yk_ema_updates(b.ema), 60);
    assert_int_equal(yk_optimizer_group_count(b.optimizer), 2);
    assert_true(yk_optimizer_lr(a.optimizer) == yk_optimizer_lr(b.optimizer));
    unload(a);
    unload(b);
}

YK_TEST(zero_is_a_value_of_adams_options)
{
    assert_int_equal(train("a", "--max-steps 1 --optimizer adam --beta1 0 --beta2 0 --eps 0"), 0);
    yk_model *model = test_mlp();
    yk_optimizer *adam;
    assert_ok(yk_adam_create(&adam, model, NULL));
    assert_ok(yk_checkpoint_load(path_of("a", "checkpoint-step-1.pth"), model, adam, NULL));
    const char *name;
    double value;
    for (size_t i = 1; i <= 3; i++) { /* after lr: beta1, beta2 and eps */
        assert_true(yk_optimizer_hyperparameter(adam, i, &name, &value));
        assert_true(value == 0);
    }
    yk_optimizer_destroy(adam);
    yk_model_destroy(model);
}

/* Of half an epoch of 40 steps. Whether it fits is known only when the data is. */
YK_TEST(a_cosine_follows_a_warm_up_that_is_shorter_than_the_training)
{
    assert_int_equal(train("a", "--epochs 0.5 --schedule cosine --schedule-unit step "
                                "--warmup-steps 15"),
                     0);
    assert_contains(job.output, "cosine over 5 steps to 0, after a warm-up of 15 steps");
    assert_int_equal(train("b", "--epochs 0.5 --schedule cosine --schedule-unit step "
                                "--warmup-steps 20"),
                     1);
    assert_contains(job.output, "--warmup-steps 20: training takes 20 steps, and --schedule cosine "
                                "needs some after the warm-up");
}

/* No option of the recipe is repeated; everything of it has its place in the checkpoint. */
YK_TEST(promise_15_a_resumed_recipe_is_the_uninterrupted_one)
{
    assert_int_equal(train("whole", "--epochs 3 " RECIPE), 0);
    assert_int_equal(train("parts", "--epochs 3 --max-steps 7 " RECIPE), 0);
    assert_int_equal(train("parts", "--resume auto --nproc 2 --max-steps 33"), 0);
    assert_int_equal(train("parts", "--resume auto --nproc 2"), 0);
    assert_contains(job.output, "cosine over 50 steps to 0, after a warm-up of 10 steps");
    assert_contains(job.output, "not on norms and biases");
    assert_same_checkpoints("checkpoint-3.pth");
    static const char *const keys[] = {"loss", "lr", "grad_norm", "ema_val_loss"};
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        assert_true(last_value("whole", keys[i]) == last_value("parts", keys[i]));
}

YK_TEST(averaged_weights_are_evaluated_and_saved)
{
    char command[512];
    assert_int_equal(train("a", "--epochs 2 --ema 0.9 --nproc 2"), 0);
    assert_contains(job.output, "averaged ");
    double loss = last_value("a", "ema_val_loss");
    assert_true(loss != last_value("a", "val_loss"));
    snprintf(command, sizeof command, "evaluate --data synthetic --ema %s/a", yk_test_directory());
    test_job_start(&job, command);
    assert_int_equal(test_job_wait(&job, 60), 0);
    const char *found = strstr(job.output, ": loss ");
    assert_non_null(found);
    assert_true(fabs(strtod(found + 7, NULL) - loss) < 2e-4);

    assert_int_equal(train("b", "--max-steps 1"), 0);
    snprintf(command, sizeof command, "evaluate --data synthetic --ema %s/b", yk_test_directory());
    test_job_start(&job, command);
    assert_int_equal(test_job_wait(&job, 60), 1);
    assert_contains(job.output, "has no averaged weights");
}

/* 20 steps an epoch, 50 in all; fc1.bias learns in the first 14 only. */
#define TRIANGLE                                                                                   \
    "--epochs 2.5 --batch-size 240 --drop-last --nproc 2 --schedule triangle --lr 0.0002 "         \
    "--loss-reduction sum --independent-decay --weight-decay 0.001 "                               \
    "--lr-group fc1.bias=0.0001:0.7 --lookahead 0.8 --lookahead-steps 3 --lookahead-power 2 "      \
    "--augment 'RandomCrop(32,padding=2,padding_mode=reflect),AlternatingHorizontalFlip,"          \
    "Normalize(cifar10)' --tta translate "

YK_TEST(promise_15_lookahead_and_ended_groups_resume_to_the_same_bits)
{
    double rates[100];
    assert_int_equal(train("whole", TRIANGLE), 0);
    assert_contains(unwrapped(), "3 epochs of 20 steps, at most 50 steps");
    assert_contains(unwrapped(), "triangle over 50 steps");
    assert_contains(unwrapped(), "lookahead every 3 steps, decay 0.8 at the end");
    assert_contains(unwrapped(), "with test-time augmentation: accuracy");
    assert_int_equal(read_rates("whole", rates, 100), 50);
    assert_true(fabs(rates[0] - 0.2 * 0.0002) < 1e-12 && fabs(rates[15] - 0.0002) < 1e-12);
    assert_int_equal(train("parts", TRIANGLE "--max-steps 7"), 0);
    assert_int_equal(go_on("parts", "--max-steps 31"), 0);
    assert_int_equal(go_on("parts", "--max-steps 50"), 0);
    assert_same_file("whole", "parts", "model.pth");
    assert_true(last_value("whole", "tta_val_accuracy") == last_value("parts", "tta_val_accuracy"));
    char command[512], expected[64];
    snprintf(command, sizeof command, "evaluate --tta translate --threads 1 %s/whole",
             yk_test_directory());
    snprintf(expected, sizeof expected, "with test-time augmentation %.2f %%",
             100 * last_value("whole", "tta_val_accuracy"));
    test_job_start(&job, command);
    assert_int_equal(test_job_wait(&job, 60), 0);
    assert_contains(job.output, expected);
}

/* Each option of a recipe can be replaced; a checkpoint keeps them without the recipe's name. */
YK_TEST(a_recipe_is_printed_and_can_be_overridden)
{
    assert_int_equal(train("a", "--recipe airbench94 --arch mlp --batch-size 120 --max-steps 2 "
                                "--lr-group fc1.bias=0.001 --whiten fc1.weight"),
                     1);
    assert_contains(job.output, "whitening: fc1.weight must be the weight of a convolution");
    assert_int_equal(train("a", "--arch airbench94 --whiten whiten.weights"), 2);
    assert_contains(unwrapped(), "--whiten whiten.weights: no parameter has a name like "
                                 "\"whiten.weights\"; there are whiten.weight, whiten.bias");
    assert_int_equal(train("b", "--recipe airbench94 --arch airbench94 --batch-size 20 "
                                "--epochs 0.01 --lr 0.001 --tta none --val-split 0.01"),
                     0);
    assert_contains(job.output, "Recipe airbench94: ");
    assert_contains(job.output, "--momentum 0.85");
    assert_contains(job.output, "padding_mode=reflect),\n"); /* long lists go on in the next row */
    assert_contains(unwrapped(), " images RandomCrop(32,padding=2,padding_mode=reflect), "
                                 "AlternatingHorizontalFlip, Normalize((0.4914,0.4822,0.4465),");
    assert_contains(unwrapped(), "Training airbench94 on synthetic");
    assert_contains(unwrapped(), "effective 20 images a step (--batch-size)");
    assert_contains(unwrapped(), "Nesterov momentum 0.85");
    assert_int_equal(go_on("b", "--max-steps 4 --recipe airbench94-muon"), 0);
    assert_contains(unwrapped(), "Nesterov momentum 0.85");
    assert_contains(unwrapped(), "with the checkpoint's options: --recipe airbench94-muon is for "
                                 "new runs");
}

/* Its weight decay is not W / 0. */
YK_TEST(a_rate_of_0_takes_independent_decay)
{
    assert_int_equal(train("a", "--max-steps 1 --independent-decay --weight-decay 0.001 "
                                "--lr-group fc1.bias=0"),
                     0);
}

/* A small convolutional network; each run takes the second rate from its own options. */
#define MUON                                                                                       \
    "--arch airbench94 --epochs 0.01 --batch-size 20 --val-split 0.01 --nproc 2 --optimizer muon " \
    "--muon-lr 0.1 --muon-steps 2 --muon-normalize --lr 0.001 --whiten whiten.weight "             \
    "--independent-decay "                                                                         \
    "--lr-group whiten.bias=0.002:0.004 "

YK_TEST(promise_15_muon_resumes_to_the_same_bits_with_zero_too)
{
    assert_int_equal(train("whole", MUON), 0);
    assert_contains(unwrapped(), "filters Muon, learning rate 0.1, momentum 0.95, 2 Newton-Schulz");
    assert_int_equal(train("parts", MUON "--max-steps 1"), 0);
    assert_int_equal(go_on("parts", "--max-steps 3"), 0);
    assert_same_file("whole", "parts", "model.pth");
    assert_int_equal(train("sharded", MUON "--zero"), 0);
    assert_same_file("whole", "sharded", "model.pth");
    assert_int_equal(train("scaled", MUON "--lr-scale linear --max-steps 1"), 0);
    assert_contains(unwrapped(), "filters Muon, learning rate 0.2, momentum 0.95");
    assert_int_equal(train("refused", MUON "--momentum 0"), 2);
    assert_contains(job.output, "--optimizer muon requires a --momentum above 0");
}

static void check_resumed(const char *name, const char *options, const char *words)
{
    char command[400], whole[40], parts[40], sharded[40];
    snprintf(whole, sizeof whole, "%s-whole", name);
    snprintf(parts, sizeof parts, "%s-parts", name);
    snprintf(sharded, sizeof sharded, "%s-sharded", name);
    snprintf(command, sizeof command, "--batch-size 500 --epochs 1 --nproc 2 --no-decay-norms %s ",
             options);
    assert_int_equal(train(whole, command), 0);
    assert_contains(unwrapped(), words);
    strcat(command, "--max-steps 4");
    assert_int_equal(train(parts, command), 0);
    assert_int_equal(go_on(parts, "--max-steps 10"), 0);
    assert_same_file(whole, parts, "model.pth");
    strcat(command, "0 --zero");
    assert_int_equal(train(sharded, command), 0);
    assert_same_file(whole, sharded, "model.pth");
}

YK_TEST(promise_15_a_cycled_rmsprop_resumes_to_the_same_bits_with_zero_too)
{
    check_resumed("cycled",
                  "--optimizer rmsprop --lr 0.001 --weight-decay 0.01 --schedule onecycle",
                  "rmsprop, learning rate 0.001 (--lr, not scaled), momentum of the schedule, "
                  "alpha 0.99, weight decay 0.01, not on norms and biases");
}

YK_TEST(promise_15_rmsprop_resumes_to_the_same_bits_with_zero_too)
{
    check_resumed("rmsprop", "--optimizer rmsprop --lr 0.001 --weight-decay 0.01 --centered",
                  "rmsprop, learning rate 0.001 (--lr, not scaled), alpha 0.99, centered, weight "
                  "decay 0.01, not on norms and biases");
    assert_int_equal(go_on("rmsprop-parts", "--max-steps 11 --epochs 2 --alpha 0.9 --eps 1e-3"), 0);
    assert_int_not_equal(go_on("rmsprop-parts", "--max-steps 12 --epochs 2 --no-centered"), 0);
    assert_contains(unwrapped(), "was trained with --centered, which a resumed run cannot change");
    assert_int_not_equal(go_on("rmsprop-parts", "--max-steps 12 --epochs 2 --momentum 0.9"), 0);
    assert_contains(unwrapped(), "was trained without momentum");
}

YK_TEST(promise_15_amsgrad_resumes_to_the_same_bits_with_zero_too)
{
    check_resumed("amsgrad", "--optimizer adamw --lr 0.001 --beta2 0.5 --amsgrad",
                  "adamw, learning rate 0.001 (--lr, not scaled), betas 0.9 0.5, amsgrad, weight "
                  "decay 0.01, not on norms and biases");
    assert_int_equal(go_on("amsgrad-parts", "--max-steps 11 --epochs 2 --beta2 0.9"), 0);
    assert_int_not_equal(go_on("amsgrad-parts", "--max-steps 12 --epochs 2 --no-amsgrad"), 0);
    assert_contains(unwrapped(), "was trained with --amsgrad, which a resumed run cannot change");
}

YK_TEST(promise_15_nadam_resumes_to_the_same_bits_with_zero_too)
{
    check_resumed("nadam",
                  "--optimizer nadam --lr 0.001 --beta1 0.8 --weight-decay 0.01 --momentum-decay "
                  "0.1 --decoupled-weight-decay",
                  "nadam, learning rate 0.001 (--lr, not scaled), betas 0.8 0.999, momentum decay "
                  "0.1, decoupled weight decay 0.01, not on norms and biases");
    assert_int_equal(go_on("nadam-parts", "--max-steps 11 --epochs 2 --momentum-decay 0.2 "
                                          "--no-decoupled-weight-decay"),
                     0);
    assert_contains(unwrapped(), "momentum decay 0.2, weight decay 0.01");
}

YK_TEST(promise_15_radam_resumes_to_the_same_bits_with_zero_too)
{
    check_resumed("radam",
                  "--optimizer radam --lr 0.001 --weight-decay 0.01 --schedule cyclic "
                  "--base-lr 0.0001 --step-size-up 3 --step-size-down 2",
                  "radam, learning rate 0.001 (--lr, not scaled), beta1 of the schedule, beta2 "
                  "0.999, weight decay 0.01, not on norms and biases");
    assert_contains(unwrapped(), "cyclic, triangular, from 0.0001 to 0.001 over 3 steps and back "
                                 "over 2 steps, momentum 0.9 to 0.8");
}

YK_TEST(promise_15_adamax_resumes_to_the_same_bits_with_zero_too)
{
    check_resumed("adamax", "--optimizer adamax --lr 0.002 --weight-decay 0.01",
                  "adamax, learning rate 0.002 (--lr, not scaled), betas 0.9 0.999, weight decay "
                  "0.01, not on norms and biases");
}

YK_TEST(promise_15_adagrad_resumes_to_the_same_bits_with_zero_too)
{
    check_resumed("adagrad",
                  "--optimizer adagrad --lr 0.01 --weight-decay 0.01 --lr-decay 0.1 "
                  "--initial-accumulator-value 0.2",
                  "adagrad, learning rate 0.01 (--lr, not scaled), rate decay 0.1, sums from 0.2, "
                  "weight decay 0.01, not on norms and biases");
    assert_int_equal(go_on("adagrad-parts", "--max-steps 11 --epochs 2 --lr-decay 0.2"), 0);
    assert_contains(unwrapped(), "rate decay 0.2, sums from 0.2");
    assert_int_not_equal(
        go_on("adagrad-parts", "--max-steps 12 --epochs 2 --initial-accumulator-value 0"), 0);
    assert_contains(unwrapped(), "was trained with 0.2, which a resumed run cannot change");
}

YK_TEST(promise_15_adadelta_resumes_to_the_same_bits_with_zero_too)
{
    check_resumed("adadelta", "--optimizer adadelta --lr 0.5 --weight-decay 0.01 --rho 0.8",
                  "adadelta, learning rate 0.5 (--lr, not scaled), rho 0.8, weight decay 0.01, not "
                  "on norms and biases");
    assert_int_equal(go_on("adadelta-parts", "--max-steps 11 --epochs 2 --rho 0.9"), 0);
    assert_contains(unwrapped(), "rho 0.9");
}

YK_TEST(promise_15_lars_and_lamb_resume_to_the_same_bits_with_zero_too)
{
    check_resumed(
        "lars", "--optimizer lars --trust-coefficient 0.01 --lr 2 --nesterov",
        "lars, learning rate 2 (--lr, not scaled), Nesterov momentum 0.9, trust coefficient 0.01, "
        "weight decay 0.0001, not on norms and biases");
    check_resumed(
        "lamb", "--optimizer lamb --amp bf16 --lr 0.01",
        "lamb, learning rate 0.01 (--lr, not scaled), betas 0.9 0.999, weight decay 0.01, not on "
        "norms and biases");
    assert_int_equal(go_on("lamb-parts", "--max-steps 11 --epochs 2 --eps 1e-5"), 0);
}
