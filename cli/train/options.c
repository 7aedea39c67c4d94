/*
 * The options of `yoke train`: one table, filled from the command line and, in a resumed run, from
 * what its checkpoint has stored. check.c checks whether they fit together.
 */
#define _GNU_SOURCE
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"
#include "launch/launch.h"
#include "options/options.h"
#include "train/train.h"

static const char summary[] =
    "Trains a network on images. With --nproc N it starts N local ranks; under `yoke run`,\n"
    "or any launcher that sets RANK and WORLD_SIZE, it runs as one of the ranks. At the end\n"
    "of each epoch it evaluates the network and writes a checkpoint to the output folder.";

static const char examples[] =
    "  yoke train --data synthetic --arch mlp --lr 0.01 --epochs 3\n"
    "  yoke train --data cifar10 --arch resnet18-cifar --nproc 2 --output runs/a\n"
    "  yoke train --output runs/a --resume auto --epochs 20";

static const cli_train_options defaults = {.data = "cifar10",
                                           .arch = "resnet18-cifar",
                                           .group = YK_GROUP_OPTIONS_INIT,
                                           .model = YK_MODEL_OPTIONS_INIT,
                                           .loader = YK_LOADER_OPTIONS_INIT,
                                           .device_cache = 512,
                                           .trainer = YK_TRAINER_OPTIONS_INIT,
                                           .schedule = YK_SCHEDULE_INIT,
                                           .sgd = YK_SGD_OPTIONS_INIT,
                                           .adam = YK_ADAM_OPTIONS_INIT,
                                           .nadam = YK_NADAM_OPTIONS_INIT,
                                           .adagrad = YK_ADAGRAD_OPTIONS_INIT,
                                           .adadelta = YK_ADADELTA_OPTIONS_INIT,
                                           .rmsprop = YK_RMSPROP_OPTIONS_INIT,
                                           .muon = YK_MUON_OPTIONS_INIT,
                                           .trust_coefficient = 0.001,
                                           .lr = NAN,
                                           .weight_decay = NAN,
                                           .grace_s = 30,
                                           .scaler = YK_GRAD_SCALER_OPTIONS_INIT,
                                           .ddp = YK_DDP_OPTIONS_INIT,
                                           .dp = YK_DATA_PARALLEL_OPTIONS_INIT,
                                           .powersgd = YK_POWERSGD_OPTIONS_INIT,
                                           .trace_window = YK_TRACE_OPTIONS_INIT,
                                           .schedule_unit = CLI_UNIT_AUTO,
                                           .lookahead = YK_LOOKAHEAD_OPTIONS_INIT,
                                           .local_sgd = YK_LOCAL_SGD_OPTIONS_INIT,
                                           .epochs = 10,
                                           .batch_size = 128,
                                           .log_every = 1,
                                           .decay_norms = true,
                                           .requeue = true};

/* What the table fills. */
static cli_train_options parsed;

static const cli_option table[] = {
    CLI_GROUP("Recipe"),
    CLI_TEXT(0, "recipe", "NAME",
             "a named set of the options below, for a new run; those\ngiven here take precedence. "
             "list: print all of them",
             &parsed.recipe, NULL),
    CLI_GROUP_KEPT("Data and network"),
    CLI_TEXT(0, "data", "DATA",
             "cifar10, synthetic, a folder, ...: see `yoke data --help`\n[cifar10]", &parsed.data,
             &parsed.given.data),
    CLI_REAL(0, "val-split", "FRACTION",
             "validate with this part of the training images instead\nof the test images; 0: off "
             "[0]",
             &parsed.val_split, NULL, 0, 0.9),
    CLI_INT(0, "image-size", "N",
            "height and width of the images as the network gets them\n[the data's own; 224 for "
            "files of any size]",
            &parsed.augment.image_size, NULL, 1, 8192),
    CLI_SWITCH(0, "skip-damaged", "replace a damaged image by the next one instead of stopping",
               &parsed.loader.skip_damaged),
    CLI_TEXT(0, "augment", "cifar|imagenet|none|LIST",
             "what is done to training images: a preset, or a list\nsuch as "
             "\"RandomResizedCrop(224),RandomHorizontalFlip,\nRandAugment,Normalize(imagenet)\" "
             "[usual for the data]",
             &parsed.augment.preset, NULL),
    CLI_TEXT(0, "eval-transforms", "LIST",
             "what is done to images for evaluation\n[resize, centre crop and normalise, to match "
             "--augment]",
             &parsed.augment.evaluation, NULL),
    CLI_REAL(0, "color-jitter", "X",
             "vary brightness, contrast and saturation by up to X;\n0: off [0]",
             &parsed.augment.color_jitter, NULL, 0, 99),
    CLI_REAL(0, "random-erasing", "P", "erase a box of an image with probability P [0]",
             &parsed.augment.random_erasing, NULL, 0, 1),
    CLI_REAL(0, "mixup", "ALPHA",
             "mix images and labels of a batch, by a share from\nBeta(ALPHA, ALPHA); 0: off [0]",
             &parsed.augment.mixup, NULL, 0, 1e6),
    CLI_REAL(
        0, "cutmix", "ALPHA",
        "replace a box of each image by that of another; with\n--mixup one of the two is drawn "
        "for each batch; 0: off [0]",
        &parsed.augment.cutmix, NULL, 0, 1e6),
    CLI_SWITCH(0, "drop-last", "drop the last batch of an epoch if it is not full",
               &parsed.loader.drop_last),
    CLI_ARCH("network to train [resnet18-cifar]", &parsed.arch, &parsed.given.arch),
    CLI_TEXT(0, "whiten", "PARAMETER",
             "compute the filters of this convolution from training\nimages, such as whiten.weight "
             "of airbench94; without\neffect if --checkpoint gives the weights",
             &parsed.whiten, NULL),
    CLI_INT(0, "classes", "N",
            "classes that the network tells apart, at least those of\nthe data [the data's]",
            &parsed.classes, NULL, 1, 1000000),
    CLI_GROUP_KEPT("Training"),
    CLI_REAL(0, "epochs", "N", "passes over the data; the last may be a part of one [10]",
             &parsed.epochs, NULL, 1e-3, 1e6),
    CLI_INT('b', "batch-size", "GLOBAL", "images per step, over all ranks [128]",
            &parsed.batch_size, &parsed.given.batch_size, 1, CLI_MAX_BATCH),
    CLI_INT(0, "accumulate", "K",
            "accumulate gradients over K micro-batches per step;\nsaves memory, same gradients [1]",
            &parsed.trainer.accumulate, NULL, 1, 1e6),
    CLI_AMP("mixed precision with f32 master weights; fp16 also\nscales the loss [off]",
            &parsed.model.amp, NULL),
    CLI_REAL(0, "init-scale", "S", "initial loss scale for --amp fp16 [65536]",
             &parsed.scaler.init_scale, &parsed.given.scaler, 1e-30, 1e30),
    CLI_INT(0, "growth-interval", "N",
            "steps without overflow before the loss scale\ndoubles [2000]",
            &parsed.scaler.growth_interval, &parsed.given.scaler, 1, 1e12),
    CLI_TEXT(0, "autocast", "OP=low|full|follow,...",
             "exceptions to the mixed-precision policy; see\n`yoke info --autocast`",
             &parsed.model.autocast, NULL),
    CLI_INT(0, "seed", "N", "seed for initial weights, order and augmentation [0]",
            &parsed.model.seed, &parsed.given.seed, 0, 4294967295.0),
    CLI_ENUM(0, "tta", CLI_TTA,
             "test-time augmentation in the last evaluation: average\nthe logits of an image and "
             "its mirror image; translate:\nalso of both shifted by a pixel [none]",
             &parsed.trainer.tta, NULL),
    CLI_REAL(0, "tta-confidence", "P",
             "skip it for images whose predicted class already has\nat least probability P; 0.9 "
             "saves most of the time [1]",
             &parsed.trainer.tta_confidence, &parsed.given.tta_confidence, 0, 1),
    CLI_DEVICE(&parsed.model.device, NULL),
    CLI_SWITCH_ON("winograd", "do not use Winograd convolutions", &parsed.model.winograd, NULL),
    CLI_SWITCH(0, "benchmark-kernels",
               "measure the kernels that can run a convolution and use\nthe fastest; the choice is "
               "kept for the next run",
               &parsed.model.benchmark),
    CLI_SWITCH(0, "recompute",
               "recompute cheap values in backward instead of keeping\nthem: less memory, same "
               "bits",
               &parsed.model.recompute),
    CLI_GROUP_KEPT("Optimizer"),
    {.type = CLI_OPTION_ENUM,
     .name = "optimizer",
     .argument = "NAME",
     .help =
         "sgd, adam, adamw, nadam, radam, adamax, adagrad,\nadadelta, rmsprop, lars, lamb or muon; "
         "lars and lamb, for\nlarge batches, are sgd and adamw with updates in proportion to the "
         "norm "
         "of\neach tensor that decays, so add --no-decay-norms; muon\nupdates the filters of "
         "convolutions, and sgd the rest\n[sgd]",
     .value = &parsed.optimizer,
     .width = sizeof parsed.optimizer,
     .choices = CLI_OPTIMIZERS},
    CLI_REAL(0, "lr", "RATE",
             "learning rate [sgd and muon 0.1, adagrad and rmsprop 0.01,\nnadam and adamax 0.002, "
             "lars and adadelta 1, others\n0.001]",
             &parsed.lr, &parsed.given.lr, 0, 1e6),
    CLI_ENUM(0, "lr-scale", CLI_LR_SCALES,
             "multiply --lr by the number of ranks or its square\nroot [none]", &parsed.lr_scale,
             NULL),
    CLI_REAL(0, "momentum", "M", "momentum of sgd, lars and muon [0.9], and of rmsprop [0]",
             &parsed.sgd.momentum, &parsed.given.momentum, 0, 1),
    CLI_REAL(0, "dampening", "D", "dampening of SGD momentum [0]", &parsed.sgd.dampening,
             &parsed.given.dampening, 0, 1),
    {.type = CLI_OPTION_SWITCH,
     .name = "nesterov",
     .help = "use Nesterov momentum",
     .value = &parsed.sgd.nesterov,
     .given = &parsed.given.nesterov},
    CLI_REAL(0, "trust-coefficient", "C",
             "lars: norm of a gradient in proportion to the norm of\nits tensor [0.001]",
             &parsed.trust_coefficient, &parsed.given.trust_coefficient, 0, 1e6),
    CLI_REAL(0, "muon-lr", "RATE", "muon: learning rate of the filters [0.02]", &parsed.muon.lr,
             &parsed.given.muon_lr, 0, 1e6),
    CLI_REAL(0, "muon-momentum", "M", "muon: Nesterov momentum of the filters [0.95]",
             &parsed.muon.momentum, &parsed.given.muon_momentum, 1e-6, 1),
    CLI_INT(0, "muon-steps", "N", "muon: Newton-Schulz steps of an update [5]",
            &parsed.muon.ns_steps, &parsed.given.muon_steps, 1, 99),
    {.type = CLI_OPTION_SWITCH,
     .name = "muon-normalize",
     .help = "muon: give the filters of a convolution a fixed norm\ninstead of weight decay",
     .value = &parsed.muon.normalize,
     .given = &parsed.given.muon_normalize},
    CLI_REAL(0, "beta1", "B", "beta1 of adam, its relatives and lamb [0.9]", &parsed.adam.beta1,
             &parsed.given.beta1, 0, 0.9999999),
    CLI_REAL(0, "beta2", "B", "beta2, likewise [0.999]", &parsed.adam.beta2, &parsed.given.beta2, 0,
             0.9999999),
    {.type = CLI_OPTION_SWITCH,
     .name = "amsgrad",
     .help =
         "adam and adamw: divide by the largest mean of squares so\nfar instead of the present one",
     .value = &parsed.adam.amsgrad,
     .given = &parsed.given.amsgrad},
    CLI_REAL(0, "momentum-decay", "D",
             "nadam: how fast its momentum grows from half of beta1 to\nbeta1 [0.004]",
             &parsed.nadam.momentum_decay, &parsed.given.momentum_decay, 0, 1e6),
    {.type = CLI_OPTION_SWITCH,
     .name = "decoupled-weight-decay",
     .help = "nadam and radam: decay the weights, as adamw does, instead\nof adding to gradients",
     .value = &parsed.nadam.decoupled_weight_decay,
     .given = &parsed.given.decoupled_weight_decay},
    CLI_REAL(0, "lr-decay", "D", "adagrad: step t is at --lr / (1 + (t - 1) D) [0]",
             &parsed.adagrad.lr_decay, &parsed.given.lr_decay, 0, 1e6),
    CLI_REAL(0, "initial-accumulator-value", "V",
             "adagrad: what the sums of squared gradients start from\n[0]",
             &parsed.adagrad.initial_accumulator_value, &parsed.given.initial_accumulator_value, 0,
             1e6),
    CLI_REAL(0, "rho", "R", "adadelta: decay of the means of squares [0.9]", &parsed.adadelta.rho,
             &parsed.given.rho, 0, 0.9999999),
    CLI_REAL(0, "alpha", "A", "rmsprop: decay of the squared gradients' mean [0.99]",
             &parsed.rmsprop.alpha, &parsed.given.alpha, 0, 0.9999999),
    {.type = CLI_OPTION_SWITCH,
     .name = "centered",
     .help = "rmsprop: divide by the deviation of gradients from\ntheir mean",
     .value = &parsed.rmsprop.centered,
     .given = &parsed.given.centered},
    CLI_REAL(
        0, "eps", "E",
        "epsilon of adam, its relatives and rmsprop [1e-8], of\nadagrad [1e-10], and of adadelta "
        "and lamb [1e-6]",
        &parsed.adam.eps, &parsed.given.eps, 0, 1),
    CLI_REAL(0, "weight-decay", "W",
             "weight decay [sgd and muon 0.0005, lars 0.0001, adamw and\nlamb 0.01, others 0]",
             &parsed.weight_decay, &parsed.given.weight_decay, 0, 1e6),
    {.type = CLI_OPTION_SWITCH,
     .name = "independent-decay",
     .help = "--weight-decay is the fraction of a weight that a step\nat the peak of the schedule "
             "removes, whatever the rate",
     .value = &parsed.independent_decay,
     .given = &parsed.given.independent_decay},
    CLI_TEXT(0, "lr-group", "PATTERN=RATE[:EPOCHS],...",
             "learning rates of the parameters whose names match,\nsuch as 'fc.*=0.1' [--lr]; "
             "'fc.*=0.1:3' trains them for\n3 epochs only",
             &parsed.lr_groups, NULL),
    CLI_SWITCH_ON("decay-norms", "do not apply weight decay to norms and biases",
                  &parsed.decay_norms, NULL),
    CLI_REAL_OR_NEVER("clip-grad-norm", "X", "clip gradients to a global norm of X; 0: off [0]",
                      &parsed.trainer.clip_grad_norm, 1e12),
    CLI_REAL(0, "lookahead", "DECAY",
             "Lookahead: fraction of the slow weights that is kept\neach time they are updated; "
             "0: off [0]",
             &parsed.lookahead.decay, NULL, 0, 0.9999999),
    CLI_INT(0, "lookahead-steps", "K", "steps between two updates of the slow weights [5]",
            &parsed.lookahead.interval, &parsed.given.lookahead, 1, 1e12),
    CLI_REAL(0, "lookahead-power", "P",
             "multiply DECAY by the fraction of training done, to\nthe power of P [0]",
             &parsed.lookahead.power, &parsed.given.lookahead, 0, 100),
    CLI_REAL(0, "ema", "DECAY",
             "also keep, evaluate and save an exponential moving\naverage of the weights; 0: "
             "off [0]",
             &parsed.ema, NULL, 0, 0.9999999),
    CLI_TEXT(0, "freeze", "PATTERN,...",
             "do not train the parameters whose names match, and\nkeep the statistics of their "
             "norms; !PATTERN thaws:\n'*,!fc.*' trains the last layer alone",
             &parsed.freeze, NULL),
    CLI_REAL(0, "label-smoothing", "S", "label smoothing of the cross-entropy loss [0]",
             &parsed.label_smoothing, NULL, 0, 1),
    CLI_ENUM(0, "loss-reduction", CLI_LOSS_REDUCTIONS,
             "sum: gradients of the sum of the losses of a batch, not of\ntheir mean; the printed "
             "loss is the mean either way [mean]",
             &parsed.trainer.loss_reduction, NULL),
    CLI_GROUP_KEPT("Learning-rate schedule (in epochs, or in steps with --schedule-unit step)"),
    {.type = CLI_OPTION_ENUM,
     .name = "schedule",
     .argument = "NAME",
     .help =
         "constant, step, multistep, cosine, warmrestarts,\npolynomial, exponential, onecycle, "
         "cyclic or triangle;\ncosine, polynomial, onecycle and triangle end with the\nlast epoch "
         "[constant]",
     .value = &parsed.schedule.kind,
     .width = sizeof parsed.schedule.kind,
     .choices = CLI_SCHEDULES},
    CLI_ENUM(0, "schedule-unit", CLI_UNITS,
             "how often the rate changes [epoch; onecycle, cyclic and\ntriangle: step]",
             &parsed.schedule_unit, NULL),
    CLI_INT(0, "step-size", "N", "step: interval between decays", &parsed.schedule.step_size,
            &parsed.given.step_size, 1, 1e12),
    CLI_TEXT(0, "milestones", "N,N,...", "multistep: when to decay", &parsed.milestones,
             &parsed.given.milestones),
    CLI_REAL(0, "gamma", "G",
             "step and multistep: factor of each decay [0.1];\nexponential, and cyclic with "
             "exp_range: of each epoch, or step",
             &parsed.schedule.gamma, &parsed.given.gamma, 1e-12, 1e6),
    CLI_REAL(0, "eta-min", "RATE", "cosine and warmrestarts: lowest learning rate [0]",
             &parsed.schedule.eta_min, &parsed.given.eta_min, 0, 1e6),
    CLI_INT(0, "t-0", "N", "warmrestarts: length of the first cycle", &parsed.schedule.t_0,
            &parsed.given.t_0, 1, 1e12),
    CLI_INT(0, "t-mult", "N", "warmrestarts: length of a cycle / that of the one before\n[1]",
            &parsed.schedule.t_mult, &parsed.given.t_mult, 1, 1e6),
    CLI_REAL(0, "power", "P", "polynomial: power of the remaining share [1]",
             &parsed.schedule.power, &parsed.given.power, 0, 100),
    CLI_REAL(0, "max-lr", "RATE", "onecycle and cyclic: peak learning rate [--lr]",
             &parsed.schedule.max_lr, &parsed.given.max_lr, 1e-12, 1e6),
    CLI_REAL(0, "base-lr", "RATE", "cyclic: rate that each cycle starts from [0]",
             &parsed.schedule.base_lr, &parsed.given.base_lr, 0, 1e6),
    CLI_INT(0, "step-size-up", "N", "cyclic: how long the rate rises [2000]",
            &parsed.schedule.step_size_up, &parsed.given.step_size_up, 1, 1e12),
    CLI_INT(0, "step-size-down", "N", "cyclic: how long it falls [as it rises]",
            &parsed.schedule.step_size_down, &parsed.given.step_size_down, 1, 1e12),
    CLI_ENUM(0, "cycle-mode", CLI_CYCLE_MODES,
             "cyclic: later cycles rise as far, half as far as the one\nbefore, or --gamma to the "
             "power of the step [triangular]",
             &parsed.schedule.cycle_mode, &parsed.given.cycle_mode),
    CLI_REAL(0, "pct-start", "FRACTION", "onecycle and triangle: fraction spent warming up [0.3]",
             &parsed.schedule.pct_start, &parsed.given.pct_start, 0, 0.999999),
    CLI_REAL(0, "start-factor", "F", "triangle: first rate / peak rate [0.2]",
             &parsed.schedule.start_factor, &parsed.given.start_factor, 0, 1),
    CLI_REAL(0, "end-factor", "F", "triangle: last rate / peak rate [0]",
             &parsed.schedule.end_factor, &parsed.given.end_factor, 0, 1),
    CLI_REAL(0, "div-factor", "F", "onecycle: peak rate / first rate [25]",
             &parsed.schedule.div_factor, &parsed.given.div_factor, 1e-6, 1e12),
    CLI_REAL(0, "final-div-factor", "F", "onecycle: first rate / last rate [1e4]",
             &parsed.schedule.final_div_factor, &parsed.given.final_div_factor, 1e-6, 1e18),
    CLI_SWITCH_ON("cycle-momentum", "onecycle and cyclic: do not vary momentum (adam: beta1)",
                  &parsed.schedule.cycle_momentum, NULL),
    CLI_INT(0, "warmup-epochs", "N", "epochs of warm-up before the schedule [0]",
            &parsed.warmup_epochs, NULL, 0, 1e6),
    CLI_INT(0, "warmup-steps", "N", "warm-up in steps, with --schedule-unit step [0]",
            &parsed.warmup_steps, NULL, 0, 1e12),
    CLI_REAL(0, "warmup-factor", "F", "initial fraction of the rate in warm-up [1/3]",
             &parsed.schedule.warmup_factor, &parsed.given.warmup_factor, 1e-6, 1),
    CLI_ENUM(0, "warmup-method", CLI_WARMUP_METHODS,
             "rise from that fraction, or stay at it [linear]", &parsed.warmup_method,
             &parsed.given.warmup_method),
    CLI_GROUP_KEPT("Distribution"),
    CLI_ENUM(0, "parallel", CLI_PARALLELS,
             "dp: DataParallel, one process with a thread per\ndevice [ddp]", &parsed.parallel,
             NULL),
    CLI_TEXT(0, "devices", "LIST",
             "devices of --parallel dp: equal parts of the cores\n"
             "(cpu:0,cpu:1), given cores (cpu:0-3,cpu:4-7) or GPUs\n(cuda:0,cuda:1) [cpu:0,cpu:1]",
             &parsed.dp.devices, &parsed.given.devices),
    CLI_INT(0, "virtual-ranks", "V",
            "bitwise the result of V ranks on any number of\nranks that divides V; 0: off [0]",
            &parsed.loader.virtual_ranks, NULL, 0, 65535),
    CLI_SWITCH(0, "sync-bn", "SyncBatchNorm: compute batch statistics over all\nranks",
               &parsed.sync_bn),
    CLI_REAL(0, "bucket-cap-mb", "MIB",
             "gradients are exchanged in buckets of about this size;\n0: a bucket for each "
             "parameter [25]",
             &parsed.ddp.bucket_cap_mb, &parsed.given.bucket_cap, 0, 1 << 20),
    CLI_ENUM(0, "comm-hook", CLI_COMM_HOOKS,
             "compress gradients before communication: to 16 bits\nor to low-rank factors [none]",
             &parsed.comm_hook, NULL),
    CLI_INT(0, "powersgd-rank", "R", "rank of the PowerSGD factors [1]",
            &parsed.powersgd.matrix_approximation_rank, &parsed.given.powersgd, 1, 1e6),
    CLI_INT(0, "powersgd-start", "S", "steps before PowerSGD begins to compress [1000]",
            &parsed.powersgd.start_iter, &parsed.given.powersgd, 1, 1e12),
    CLI_INT(0, "sync-every", "H",
            "local SGD: ranks train on their own, and average\ntheir weights every H steps; 0: "
            "off [0]",
            &parsed.local_sgd.sync_every, NULL, 0, 1e12),
    CLI_ENUM(0, "sync-between", CLI_SYNC_BETWEENS,
             "hosts: the ranks of each host average gradients in\nevery step, as without "
             "--sync-every [ranks]",
             &parsed.sync_between, &parsed.given.sync_between),
    CLI_REAL(0, "outer-lr", "LR",
             "local SGD: the rate at which an outer SGD applies\nwhat the ranks have changed [1]",
             &parsed.local_sgd.outer_lr, &parsed.given.outer, 1e-9, 100),
    CLI_REAL(0, "outer-momentum", "M", "momentum of the outer SGD [0]",
             &parsed.local_sgd.outer_momentum, &parsed.given.outer, 0, 0.9999999),
    CLI_SWITCH(0, "outer-nesterov", "Nesterov momentum for the outer SGD",
               &parsed.local_sgd.outer_nesterov),
    CLI_INT_OR_NEVER("check-divergence", "K",
                     "every K steps, compare hashes of all parameters and\nbuffers between ranks; "
                     "0: never [0]",
                     &parsed.trainer.check_divergence, 1e12),
    CLI_GROUP("Processes and memory"),
    CLI_RANKS(
        "nproc",
        "number of local ranks; auto or cpu starts one per\ncore, gpu one per GPU [1, in this "
        "process; when\nresuming, as many as before]",
        &parsed.nproc, &parsed.given.nproc, CLI_MAX_RANKS),
    CLI_TEXT(0, "backend", "NAME",
             "what moves data between ranks: shm, tcp, mpi, nccl, ...\n[by where the ranks are, "
             "and their devices]",
             &parsed.group.backend, NULL),
    CLI_INT(0, "threads", "T",
            "kernel threads per rank [cores / local ranks; 1\nwith --virtual-ranks]",
            &parsed.model.threads, NULL, 1, CLI_MAX_THREADS),
    CLI_INT(0, "workers", "N", "data loader threads per rank [1]", &parsed.loader.workers, NULL, 1,
            256),
    CLI_INT(0, "device-cache", "MIB",
            "keep the images in the memory of a GPU if they are of\none size, only cropped and "
            "flipped, and take at most\nthis much [512]",
            &parsed.device_cache, NULL, 0, 1 << 20),
    CLI_SWITCH(0, "zero",
               "ZeRO-1: shard the optimizer state over the ranks;\ndoes not change the results",
               &parsed.zero),
    CLI_SWITCH(0, "memory-plan", "print how the memory of a step is used", &parsed.memory_plan),
    CLI_REAL(0, "timeout", "SECONDS", "how long ranks wait for each other [300]",
             &parsed.group.timeout_s, NULL, 0.1, 1e6),
    CLI_GROUP_KEPT("Checkpoints and records"),
    CLI_INT_OR_NEVER("save-every", "N",
                     "also write a checkpoint every N steps; 0: only at\nthe end of each epoch [0]",
                     &parsed.trainer.save_every, 1e12),
    CLI_SWITCH(0, "save-async",
               "write checkpoints while training continues; takes the\nmemory of one more copy",
               &parsed.trainer.save_async),
    CLI_INT_OR_NEVER("keep", "K", "number of newest checkpoints to keep; 0: all [3]",
                     &parsed.trainer.keep, 1e6),
    CLI_INT(0, "log-every", "N",
            "write one record of every N steps into metrics.jsonl,\nwith mean values and added-up "
            "times [1]",
            &parsed.log_every, NULL, 1, 1000000000),
    CLI_GROUP("Output, resuming and stopping"),
    CLI_TEXT('o', "output", "FOLDER",
             "folder for checkpoints and metrics.jsonl\n[runs/ARCH-DATE-TIME]", &parsed.output,
             NULL),
    CLI_TEXT(0, "checkpoint", "FILE",
             "initial weights: a .pth or safetensors file, or the\nfolder of a run; if they have "
             "other classes, the last\nlayer is new",
             &parsed.checkpoint, NULL),
    CLI_TEXT(0, "resume", "auto|FILE",
             "resume from a checkpoint and its options; auto: from\nthe newest one in the output "
             "folder, if any. Options\ngiven here take precedence",
             &parsed.resume, NULL),
    CLI_INT_OR_NEVER("max-steps", "S", "stop after S steps in total; 0: no limit [0]",
                     &parsed.trainer.max_steps, 1e12),
    CLI_REAL(0, "grace", "SECONDS",
             "how long writing a last checkpoint may take after\n^C, SIGTERM, SIGHUP, SIGUSR1 or "
             "SIGUSR2 [30]",
             &parsed.grace_s, NULL, 0, 86400),
    CLI_SWITCH_ON(
        "requeue",
        "in a Slurm batch job: do not put the job back into the\nqueue when it is stopped",
        &parsed.requeue, NULL),
    CLI_REAL(
        0, "stop-margin", "SECONDS",
        "stop this long before Slurm ends the job, plus the\ntime that a checkpoint takes [60]",
        &parsed.trainer.stop_margin_s, NULL, 0, 1e9),
    CLI_SWITCH('q', "quiet", "print nothing but warnings and errors", &parsed.quiet),
    CLI_SWITCH(0, "json", "print the records of metrics.jsonl instead of text", &parsed.json),
    CLI_SWITCH(0, "tensorboard",
               "also write TensorBoard's event file into the output\nfolder: tensorboard --logdir "
               "runs",
               &parsed.tensorboard),
    CLI_SWITCH(
        0, "histograms",
        "with --tensorboard: after each epoch, also the\ndistributions of weights and gradients",
        &parsed.histograms),
    CLI_TEXT(0, "metrics-file", "FILE",
             "keep the state of the run in FILE (*.prom), in\nPrometheus' text format",
             &parsed.metrics_file, NULL),
    CLI_TEXT(0, "trace", "FILE", "write a timeline of all ranks for\nhttps://ui.perfetto.dev",
             &parsed.trace, NULL),
    CLI_TEXT(0, "trace-steps", "A:B", "steps in the timeline [the first 50]", &parsed.trace_steps,
             NULL),
};

const cli_option *cli_train_options_table(size_t *count)
{
    *count = sizeof table / sizeof *table;
    return table;
}

/* only_kept: the words are a checkpoint's. */
static int parse_words(int argc, char **argv, bool only_kept)
{
    const cli_command command = {.name = parsed.name,
                                 .operands = "",
                                 .summary = summary,
                                 .exit_codes = CLI_LAUNCH_EXIT_CODES,
                                 .examples = examples,
                                 .options = table,
                                 .option_count = sizeof table / sizeof *table,
                                 .kept = parsed.kept,
                                 .kept_size = sizeof parsed.kept,
                                 .only_kept = only_kept};
    return cli_options_parse(&command, argc, argv, NULL, NULL);
}

static void set_defaults(const char *name, int argc, char **argv)
{
    parsed = defaults;
    parsed.sgd.momentum = NAN;
    parsed.schedule.gamma = NAN;
    parsed.adam.eps = NAN;
    parsed.lookahead.decay = 0;
    parsed.local_sgd.sync_every = 0;
    parsed.name = name;
    parsed.argc = argc;
    parsed.argv = argv;
}

/* A checkpoint stores where the data is for a run that is resumed from another folder. */
static bool make_data_absolute(void)
{
    static char path[CLI_DATA_PATH];
    if (cli_data_absolute(parsed.data, path))
        parsed.data = path;
    if (parsed.data == path && cli_options_keep(parsed.kept, sizeof parsed.kept, "data", path))
        return true;
    cli_usage_error(parsed.name, "--data: the path is too long: %s", path);
    return false;
}

static bool is_positive(const char *variable)
{
    const char *text = getenv(variable);
    return text && atoll(text) > 0;
}

/* A run that is started again by itself resumes by itself. */
static void resume_when_restarted(void)
{
    parsed.restarted =
        is_positive("SLURM_RESTART_COUNT") || is_positive("TORCHELASTIC_RESTART_COUNT");
    parsed.resumes_by_itself = parsed.restarted && parsed.output && !parsed.resume;
    if (parsed.resumes_by_itself)
        parsed.resume = "auto";
}

/* The defaults of each optimizer, in the order of CLI_OPTIMIZERS. */
static const struct {
    double lr, momentum, weight_decay, eps;
} of_optimizers[] = {{0.1, 0.9, 5e-4, 0}, {1e-3, 0, 0, 1e-8},    {1e-3, 0, 0.01, 1e-8},
                     {2e-3, 0, 0, 1e-8},  {1e-3, 0, 0, 1e-8},    {2e-3, 0, 0, 1e-8},
                     {1e-2, 0, 0, 1e-10}, {1.0, 0, 0, 1e-6},     {1e-2, 0, 0, 1e-8},
                     {1.0, 0.9, 1e-4, 0}, {1e-3, 0, 0.01, 1e-6}, {0.1, 0.9, 5e-4, 0}};

/* The momentum that is given, or the default of the optimizer. A momentum that is to cycle is there
 * in any case. */
static double momentum_of(const cli_train_options *o)
{
    bool cycles = cli_train_cycles_momentum(o);
    if (!isnan(o->sgd.momentum))
        return o->sgd.momentum;
    return o->optimizer == CLI_OPTIMIZER_RMSPROP && cycles ? 0.9
                                                           : of_optimizers[o->optimizer].momentum;
}

/* What depends on other options. */
static void derive(void)
{
    if (isnan(parsed.lr))
        parsed.lr = of_optimizers[parsed.optimizer].lr;
    parsed.sgd.momentum = momentum_of(&parsed);
    if (isnan(parsed.weight_decay))
        parsed.weight_decay = of_optimizers[parsed.optimizer].weight_decay;
    if (isnan(parsed.adam.eps))
        parsed.adam.eps = of_optimizers[parsed.optimizer].eps;
    if (isnan(parsed.schedule.gamma) && !cli_train_needs_gamma(&parsed))
        parsed.schedule.gamma = defaults.schedule.gamma;
    parsed.schedule.warmup_constant = parsed.warmup_method == 1;
    bool cyclic = parsed.schedule.kind == YK_SCHEDULE_CYCLIC; /* as in PyTorch */
    parsed.schedule.base_momentum = cyclic ? 0.8 : defaults.schedule.base_momentum;
    parsed.schedule.max_momentum = cyclic ? 0.9 : defaults.schedule.max_momentum;
    parsed.adam.decoupled = parsed.optimizer == CLI_OPTIMIZER_ADAMW;
    parsed.trainer.epochs = (int64_t)ceil(parsed.epochs);
    parsed.schedule.per_step = parsed.schedule_unit == CLI_UNIT_AUTO
                                   ? parsed.schedule.kind == YK_SCHEDULE_ONE_CYCLE ||
                                         parsed.schedule.kind == YK_SCHEDULE_CYCLIC ||
                                         parsed.schedule.kind == YK_SCHEDULE_TRIANGLE
                                   : parsed.schedule_unit == CLI_UNIT_STEP;
    parsed.loader.seed = parsed.model.seed;
}

/* Whether all of it fits together; if so, into *options. */
static bool complete(cli_train_options *options, bool checkpoint_known)
{
    if (!make_data_absolute())
        return false;
    derive();
    resume_when_restarted();
    *options = parsed;
    return cli_train_options_check(options, checkpoint_known);
}

/* Parses the recipe's options, then those of the command line, which take precedence. */
static int parse_recipe(const char *recipe)
{
    enum { MOST = 128 };
    char *words[MOST] = {parsed.argv[0]};
    if (strcmp(recipe, "list") == 0) {
        cli_recipes_list();
        return CLI_EXIT_OK;
    }
    if (!cli_recipe_check(parsed.name, recipe))
        return CLI_EXIT_USAGE;
    int count = 1 + cli_recipe_words(recipe, words + 1, MOST - 1);
    set_defaults(parsed.name, parsed.argc, parsed.argv);
    int code = parse_words(count, words, false);
    memset(&parsed.given, 0, sizeof parsed.given); /* those were the recipe's */
    return code >= 0 ? code : parse_words(parsed.argc, parsed.argv, false);
}

int cli_train_options_parse(cli_train_options *options, const char *name, int argc, char **argv)
{
    set_defaults(name, argc, argv);
    int code = parse_words(argc, argv, false);
    if (code < 0 && parsed.recipe)
        code = parse_recipe(parsed.recipe);
    if (code >= 0)
        return code;
    return complete(options, false) ? -1 : CLI_EXIT_USAGE;
}

bool cli_train_options_resume(cli_train_options *options, const yk_training_state *saved)
{
    enum { MOST = 256 };
    static char text[2 * sizeof options->kept]; /* the options point into it */
    char *words[MOST] = {options->argv[0]};
    int count = 1;
    size_t used = 0;
    for (const char *line = saved->program; *line && count < MOST; line = strchr(line, '\n') + 1) {
        bool arch = strncmp(line, "arch=", 5) == 0; /* the state has its name of today */
        int length = (int)strcspn(line, "\n");
        words[count++] = text + used;
        used += (size_t)snprintf(text + used, sizeof text - used, "--%.*s%s", arch ? 5 : length,
                                 line, arch ? saved->arch : "") +
                1;
    }
    set_defaults(options->name, options->argc, options->argv);
    if (parse_words(count, words, true) >= 0)
        return false;
    parsed.saved_momentum = parsed.sgd.momentum = momentum_of(&parsed);
    parsed.saved_centered = parsed.rmsprop.centered;
    parsed.saved_accumulator = parsed.adagrad.initial_accumulator_value;
    parsed.saved_amsgrad = parsed.adam.amsgrad;
    parsed.saved_decay_norms = parsed.decay_norms;
    parsed.saved_lr_groups = parsed.lr_groups ? parsed.lr_groups : "";
    memset(&parsed.given, 0, sizeof parsed.given); /* those were the checkpoint's */
    return parse_words(parsed.argc, parsed.argv, false) < 0 && complete(options, true);
}
