/* The messages of the program: help pages, and one line for every mistake. */
#define _GNU_SOURCE
#include <stdlib.h>

#include "yoke_line.h"

/* Exit code 2, one line, and these words in it. */
static void refused(const char *arguments, const char *words)
{
    int code = yoke(arguments);
    if (code != 2)
        fail_msg("yoke %s: exit code %d, \"%s\"", arguments, code, output);
    assert_contains(output, words);
    char *newline = strchr(output, '\n');
    if (!newline || newline[1])
        fail_msg("yoke %s: more than one line: \"%s\"", arguments, output);
}

YK_TEST(the_program_lists_its_commands)
{
    static const char *const names[] = {"train",   "evaluate", "run",   "checkpoint", "predict",
                                        "convert", "data",     "bench", "info",       "ps",
                                        "report",  "compare",  "sweep"};
    assert_int_equal(yoke(""), 0);
    char *first = strdup(output);
    assert_int_equal(yoke("--help"), 0);
    assert_string_equal(first, output);
    free(first);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        assert_contains(output, names[i]);
    assert_int_equal(yoke("--version"), 0);
    assert_contains(output, yk_version());
    refused("pull", "unknown command 'pull'; `yoke --help`");
    refused("trian", "unknown command 'trian': did you mean train? `yoke --help`");
    refused("--pull", "unknown option '--pull'");
    refused("--versoin", "unknown option '--versoin': did you mean --version?");
    refused("version", "unknown command 'version': did you mean --version?");
    refused("help trian", "unknown command 'trian': did you mean train?");
    refused("'tra\nin'", "unknown command 'tra?in': did you mean train?");
}

/* What is not read is not taken for anything. */
YK_TEST(words_after_help_and_version_are_commands_or_mistakes)
{
    assert_int_equal(yoke("bench scaling --help"), 0);
    char *page = strdup(output);
    assert_int_equal(yoke("help bench scaling"), 0);
    assert_string_equal(output, page);
    assert_int_equal(yoke("--help bench scaling"), 0);
    assert_string_equal(output, page);
    assert_int_equal(yoke("--help"), 0);
    snprintf(page, strlen(page) + 1, "%s", output);
    assert_int_equal(yoke("help help"), 0);
    assert_memory_equal(output, page, strlen(page));
    free(page);
    refused("help bench step", "unexpected argument 'step'");
    refused("help run true", "unexpected argument 'true'"); /* and is not started */
    refused("--version train", "unexpected argument 'train'");
    refused("--help=man train", "unexpected argument 'train'");
}

/* A terminal of 80 columns shows each line whole, and options have a heading. */
static void help_page(const char *command)
{
    bool heading = false, options = false;
    assert_int_equal(yoke(command), 0);
    assert_contains(output, "Usage: yoke ");
    for (const char *line = output; *line; line = strchr(line, '\n') + 1) {
        size_t length = strcspn(line, "\n");
        bool option = strncmp(line, "  -", 3) == 0 || strncmp(line, "      --", 8) == 0;
        if (length >= 80 || (option && !options && !heading))
            fail_msg("yoke %s: %.*s", command, (int)length, line);
        options |= option;
        heading = length && line[length - 1] == ':';
    }
    assert_null(strstr(output, " \n"));
}

YK_TEST(networks_are_listed_by_family)
{
    assert_int_equal(yoke("train --help"), 0);
    assert_contains(output, "\n                              wide-resnet50-2, wide-resnet101-2\n");
    assert_int_equal(yoke("train --help=man"), 0);
    assert_contains(output, "\n.br\nwide\\-resnet50\\-2, wide\\-resnet101\\-2\n.br\n");
    assert_int_equal(yoke("info"), 0);
    assert_contains(output, "\n  wide-resnet50-2, wide-resnet101-2\n");
}

YK_TEST(every_command_has_a_help_page)
{
    static char list[4096];
    char command[64], *rest = list;
    help_page("--help");
    help_page("bench scaling --help");
    assert_int_equal(yoke("--help=options"), 0);
    snprintf(list, sizeof list, "%s", output);
    for (char *line; (line = strsep(&rest, "\n")) && *line;) {
        snprintf(command, sizeof command, "%.*s --help", (int)strcspn(line, "\t"), line);
        help_page(command);
        char *page = strdup(output);
        snprintf(command, sizeof command, "help %.*s", (int)strcspn(line, "\t"), line);
        assert_int_equal(yoke(command), 0);
        assert_string_equal(page, output);
        free(page);
    }
    assert_int_equal(yoke("train -h"), 0);
    assert_contains(output, "--batch-size GLOBAL");
}

YK_TEST(unknown_and_malformed_options_get_one_line)
{
    refused("train --batchsize 3", "unknown option '--batchsize': did you mean --batch-size?");
    refused("train --eopchs=3", "unknown option '--eopchs': did you mean --epochs?");
    refused("run --nproc_per_nod 2", "'--nproc_per_nod': did you mean --nproc-per-node?");
    refused("train --batch 3", "unknown option '--batch': did you mean --batch-size?");
    refused("train --nproc_per_node 2", "'--nproc_per_node': did you mean --nproc?");
    refused("train --colour x", "unknown option '--colour' (see");
    refused("train -epochs 3", "unknown option '-epochs': did you mean --epochs?");
    refused("train -x", "unknown option '-x'");
    refused("train --epochs", "--epochs needs a value");
    refused("train --resume --output run", "--resume needs a value");
    refused("train --resume --output=run", "--resume needs a value");
    refused("train --resume --no-winograd", "--resume needs a value");
    refused("train --output --help", "--output needs a value");
    refused("train --epochs ten", "--epochs ten: expected a number");
    refused("train --epochs 0", "--epochs 0: expected a number from 0.001");
    refused("train --recipe fast", "--recipe fast: expected one of airbench94");
    refused("train --recipe airbench94 --lr 0", "--lr must be more than 0");
    refused("train --lookahead-steps 3", "require --lookahead");
    refused("train --muon-lr 3", "--muon-lr applies to --optimizer muon, not sgd");
    refused("train --optimizer lamb --trust-coefficient 1",
            "--trust-coefficient applies to --optimizer lars, not lamb");
    refused("train --optimizer lamb --nesterov",
            "--nesterov requires --optimizer sgd, lars or muon");
    refused("train --optimizer rmsprop --nesterov",
            "--nesterov requires --optimizer sgd, lars or muon");
    refused("train --optimizer rmsprop --beta2 0.9", "--beta2 applies to --optimizer adam|adamw");
    refused("train --optimizer adam --alpha 0.9", "--alpha applies to --optimizer rmsprop, not");
    refused("train --lr-decay 0.1", "--lr-decay applies to --optimizer adagrad, not sgd");
    refused("train --optimizer rmsprop --initial-accumulator-value 1",
            "--initial-accumulator-value applies to --optimizer adagrad, not rmsprop");
    refused("train --optimizer adagrad --momentum 0.9", "--momentum applies to --optimizer sgd|");
    refused("train --optimizer adagrad --nesterov",
            "--nesterov requires --optimizer sgd, lars or muon");
    refused("train --schedule onecycle --optimizer adagrad",
            "which adagrad and adadelta do not have");
    refused("train --schedule onecycle --optimizer adadelta",
            "do not have: add --no-cycle-momentum");
    refused("train --rho 0.8", "--rho applies to --optimizer adadelta, not sgd");
    refused("train --centered", "--centered applies to --optimizer rmsprop, not sgd");
    refused("train --amsgrad --optimizer lamb", "--amsgrad applies to --optimizer adam|adamw, not");
    refused("train --schedule onecycle --optimizer rmsprop --momentum 0", "set --momentum or");
    refused("train --optimizer lars --beta1 0.9", "--beta1 applies to --optimizer adam|adamw|");
    refused("train --optimizer radam --momentum-decay 0.1",
            "--momentum-decay applies to --optimizer nadam, not radam");
    refused("train --optimizer adamw --decoupled-weight-decay",
            "--decoupled-weight-decay applies to --optimizer nadam|radam, not adamw");
    refused("train --tta-confidence 0.9", "--tta-confidence requires --tta");
    refused("train --tta rotate", "expected one of none|mirror|translate");
    refused("train --lr-group fc.*=0.1:x", "expected PATTERN=RATE[:EPOCHS],...");
    refused("train --lr=fast", "--lr fast: expected a number");
    refused("train --lr nan", "--lr nan");
    refused("train --optimizer adafactor",
            "expected one of sgd|adam|adamw|nadam|radam|adamax|adagrad|adadelta|rmsprop|lars|lamb");
    refused("train --arch vgg", "vgg: expected a name that the help lists (see yoke train --help)");
    refused("train --arch vgg11_b", "vgg11_b: did you mean vgg11? expected a name that");
    refused("train --arch resnet-18", "did you mean resnet18? expected a name that");
    refused("bench step --amp fb16", "--amp fb16: did you mean bf16? expected one of off|bf16");
    refused("sweep --lrs 0.1,0.2", "unknown option '--lrs': did you mean --lr?");
    refused("sweep --no-lr 0.1,0.2", "unknown option '--no-lr'");
    refused("train --arch wide_resnet50_2 --lr x", "--lr x"); /* torchvision's way to write it */
    refused("train --no-winograd=1", "--no-winograd takes no value");
    refused("train --winograd=true", "--winograd takes no value");
    refused("train --no-lr", "unknown option '--no-lr'");
    refused("train leftover", "unexpected argument 'leftover'");
    refused("info --all", "unknown option '--all'");
    refused("bench", "expected all-reduce, step or scaling");
    refused("bench gemm", "expected all-reduce, step or scaling");
    refused("evaluate", "missing CHECKPOINT");
    refused("evaluate a b", "unexpected argument 'b'");
}

/* As many as a model can have: a mistake before anything starts. */
YK_TEST(threads_are_at_most_those_of_a_model)
{
    refused("train --threads 1025", "--threads 1025: expected a whole number from 1 to 1024");
    refused("evaluate --threads 1025 .", "--threads 1025: expected a whole number from 1 to 1024");
    refused("predict --threads 1025 . .", "expected a whole number from 1 to 1024");
    refused("bench step --threads 1025", "expected a whole number from 1 to 1024");
    refused("bench scaling --threads 1025", "expected a whole number from 1 to 1024");
}

/* Of a long path too, what is wrong with it is in the line. */
YK_TEST(long_paths_get_their_reason)
{
    char path[1024] = "", words[1100];
    for (int i = 0; i < 4; i++)
        snprintf(path + strlen(path), sizeof path - strlen(path), "/%0200d", i);
    snprintf(words, sizeof words, "train --data synthetic --checkpoint %s", path);
    refused(words, "0003: No such file or directory (see yoke train --help)");
    snprintf(words, sizeof words, "data preview synthetic -o %s", path);
    refused(words, "0003: cannot be written: No such file or directory (see");
    snprintf(words, sizeof words, "report %s", path);
    assert_int_equal(yoke(words), 1);
    assert_contains(output, "0003: no such folder\n");
    snprintf(words, sizeof words, "bench step --json %0300d", 0);
    refused(words, "0: cannot be written: File name too long (see");
}

/* A result would replace what a link points to, and its folder must be there. */
YK_TEST(links_to_missing_folders_are_refused)
{
    char link[256], words[300];
    snprintf(link, sizeof link, "%s/link", yk_test_directory());
    assert_int_equal(symlink("missing/file", link), 0);
    snprintf(words, sizeof words, "bench step --json %s", link);
    refused(words, "/link: cannot be written: No such file or directory (see");
}

/* A path that is too long, or leaves no room for names of files, is refused and not cut. */
YK_TEST(paths_that_are_too_long_are_refused)
{
    static const char *const lines[] = {"train --data synthetic --max-steps 1 --output",
                                        "sweep --data synthetic --arch mlp --lr 1,2 --output",
                                        "train --data synthetic --max-steps 1 --resume",
                                        "predict",
                                        "checkpoint show",
                                        "convert"};
    char words[200];
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++)
        for (int parts = i < 2 ? 20 : 21; parts <= 22; parts++) { /* of 201 bytes */
            snprintf(words, sizeof words, "%s $(printf '%%0200d/' $(seq %d)) x.pth", lines[i],
                     parts);
            if (i < 3 || strcmp(lines[i], "checkpoint show") == 0)
                *strrchr(words, ' ') = '\0';
            refused(words, "File name too long");
        }
}

/* Without quotes, a shell makes two arguments of shards:x-{0..1}.tar. */
YK_TEST(an_expanded_pattern_is_to_be_quoted)
{
    refused("train --data shards:x-0.tar shards:x-1.tar",
            "'shards:x-1.tar' after 'shards:x-0.tar': put the pattern in quotes");
    refused("train --data=shards:x-0.tar --data=shards:x-1.tar", "put the pattern in quotes");
    refused("data info shards:x-0.tar shards:x-1.tar", "put the pattern in quotes");
}

YK_TEST(files_that_are_not_there_get_one_line)
{
    refused("train --data /no/such/folder",
            "--data /no/such/folder: no such folder; expected cifar10[:DIR], cifar100[:DIR]");
    refused("train --data cfar10", "cfar10: no such folder: did you mean cifar10? expected");
    refused("data info mnst", "mnst: no such folder: did you mean mnist? expected cifar10");
    refused("train --data synthetic --checkpoint no.pth", "--checkpoint no.pth: No such file");
    refused("train --data synthetic --trace /proc/no/t.json",
            "--trace /proc/no/t.json: cannot be written");
    refused("train --data synthetic --output /dev/null/a --trace /dev/null/ab/t.json",
            "--trace /dev/null/ab/t.json: cannot be written");
    refused("train --data synthetic --output /dev/null", "cannot create files there: Not a dir");
    refused("train --data synthetic --resume no.pth", "--resume no.pth: No such file");
    refused("train --data synthetic --resume /",
            "is a folder: resume the run in it with --resume auto --output /");
    refused("evaluate no.pth", "no.pth: No such file");
    refused("evaluate --data nowhere /",
            "--data nowhere: no such folder; expected cifar10[:DIR], cifar100[:DIR]");
}

YK_TEST(a_result_does_not_take_the_name_of_weights_or_records)
{
    const char *rest = ": only weights and records of training have such a name";
    refused("report / -o a/metrics.jsonl", "--output a/metrics.jsonl");
    refused("report / -o model.pth", rest);
    refused("data pack synthetic -o manifest.json", rest);
    refused("bench step --json a.safetensors", rest);
    refused("bench scaling --svg a.pt", rest);
    refused("train --data synthetic --output a --metrics-file a/metrics.jsonl", rest);
    refused("train --data synthetic --output a --trace a/checkpoint-1.pth", rest);
    refused("train --data synthetic --trace t --metrics-file t",
            "--trace and --metrics-file name the same file");
}

YK_TEST(run_checks_its_options)
{
    setenv("CUDA_VISIBLE_DEVICES", "-1", 1);
    refused("run --bogus true", "unknown option '--bogus'");
    refused("run -n", "--nproc-per-node needs a value");
    refused("run -n two true", "--nproc-per-node two: expected a number from 1 to 1024, auto, "
                               "cpu or");
    refused("run -n 99999999999999999999 true", "expected a number from 1 to 1024");
    refused("run -n gpu true", "--nproc-per-node gpu: device cuda: ");
    refused("train --nproc gpu", "--nproc gpu: device cuda: ");
    refused("train --nproc 0", "--nproc 0: expected a number from 1 to 1024, auto, cpu or gpu");
    refused("run --nproc-per-node= true", "its value is empty");
    refused("run --master-port 65536 true", "expected a whole number from 0 to 65535");
    refused("run --grace -1 true", "--grace -1: expected a number from 0");
    refused("run --grace inf true", "--grace inf: expected a number from 0");
    refused("run --node-rank 1 true", "expected 0, since --nnodes is 1");
    refused("run --standalone=yes true", "--standalone takes no value");
    refused("run --standalone --hosts a:1 true",
            "--standalone starts a job on this host alone: leave out --hosts");
}

YK_TEST(bench_checks_its_options)
{
    refused("bench step --bogus", "unknown option '--bogus'");
    refused("bench step --steps", "--steps needs a value");
    refused("bench step --steps 0", "--steps 0: expected a whole number from 1 to 1000");
    refused("bench step --steps 1e2", "--steps 1e2: expected a whole number");
    refused("bench step --batch-size 99999999999999999999", "expected a whole number from 1");
    refused("bench step --batch-size 3 --nproc 2", "cannot be shared equally by 2 ranks");
    refused("bench step --amp f32", "expected one of off|bf16|fp16");
    refused("bench step all-reduce", "unexpected argument 'all-reduce'");
    refused("bench --json x scaling", "scaling has options of its own, which follow it");
    refused("bench all_reduce --steps 3", "all-reduce takes only --nproc");
    refused("bench all-reduce --steps 3", "all-reduce takes only --nproc");
    refused("bench all-reduce --no-winograd", "all-reduce takes only --nproc");
    refused("bench all-reduce --recompute", "all-reduce takes only --nproc");
    refused("bench all-reduce --json /missing/file", "/missing/file: cannot be written");
    refused("bench all-reduce --backend shm,udp", "--backend shm,udp: unknown backend \"udp\"");
    refused("bench step --backend udp --nproc 2", "--backend udp: unknown backend \"udp\"");
    refused("bench step --private", "--private applies to all-reduce only");
}

YK_TEST(data_checks_its_options)
{
    refused("data", "expected info, preview, download or pack, found nothing");
    refused("data draw", "expected info, preview, download or pack, found draw");
    refused("data info nowhere", "nowhere: no such folder; expected cifar10[:DIR], cifar100[:DIR]");
    refused("data info /dev/null", "/dev/null is a file: write what it is, such as pack:/dev/null");
    refused("data info cifar10:/nowhere", "cifar10:/nowhere: there is no /nowhere");
    refused("data info synthetic:3", "synthetic:3: expected synthetic alone");
    refused("data info random:", "random:: expected random[:CxHxW[,CLASSES]]");
    refused("data info synthetic cifar10", "unexpected argument 'cifar10'");
    refused("data info --split all", "expected one of train|test|val");
    refused("data info --columns 3", "--columns applies to preview only");
    refused("data preview --columns 0", "--columns 0: expected a whole number from 1 to 256");
    refused("data preview --output", "--output needs a value");
    refused("data preview -o /no/such/a.png",
            "--output /no/such/a.png: cannot be written: No such");
    refused("data preview -o /", "--output /: cannot be written: Is a directory");
    refused("data preview -o /dev/null/a.png", "cannot be written: Not a directory");
    refused("data download synthetic",
            "synthetic cannot be downloaded; expected cifar10, cifar100, mnist, fashion-mnist");
    refused("data download --split test", "--split does not apply to download");
}

YK_TEST(info_checks_its_options)
{
    refused("info bf16", "unexpected argument 'bf16'");
    refused("info --autocast=1", "--autocast takes no value");
    refused("info --auto", "unknown option '--auto'");
}

YK_TEST(what_holds_a_newline_gets_one_line_too)
{
    refused("train 'a\nb'", "unexpected argument 'a?b'");
    refused("run -n '\n' true", "--nproc-per-node ?: expected a number");
    char words[512];
    snprintf(words, sizeof words, "data pack synthetic --split test -o '%s/a\nb.pack'",
             yk_test_directory());
    assert_int_equal(yoke(words), 0);
    snprintf(words, sizeof words, "data info 'pack:%s/a\nb.pack'", yk_test_directory());
    assert_int_equal(yoke(words), 0);
    assert_contains(output, "/a?b.pack, train: 1000 images of 3x32x32 in 10 classes\n");
}

/* As a variable of a shell that is not set leaves it. */
YK_TEST(empty_arguments_get_one_line)
{
    refused("train ''", "unexpected argument ''");
    refused("evaluate ''", "an argument is empty: expected CHECKPOINT (see");
    refused("report . ''", "an argument is empty: expected RUN...");
    refused("convert '' a.pth", "an argument is empty: expected IN OUT");
    refused("data ''", "an argument is empty: expected info|preview|download|pack [DATA]");
    refused("ps ''", "an argument is empty: expected [HOST:PORT]");
    assert_int_equal(yoke("run -n 1 sh -c 'test -z \"$1\"' sh ''"), 0);
}

YK_TEST(contradictions_get_one_line)
{
    refused("train --resume a.pth --checkpoint b.pth", "give one of them");
    refused("train --resume auto", "name it with --output");
    refused("train --data synthetic --nproc 2 --backend udp", "--backend udp: unknown backend");
    refused("train --optimizer adam --momentum 0.9", "--momentum applies to --optimizer sgd");
    refused("train --batch-size 3 --nproc 4", "less than one image for each of 4 ranks");
    refused("train --batch-size 127 --nproc 2", "126 or 128 can");
    refused("train --autocast conv2d=full", "needs --amp bf16|fp16");
    refused("train --amp fp16 --autocast conv=full", "expected one of conv2d, linear");
    refused("train --amp fp16 --autocast conv2d=half", "expected conv2d=low|full|follow");
    refused("train --amp fp16 --autocast cross_entropy=low", "cross_entropy runs in f32 alone");
    refused("train --lr 0", "more than 0");
    refused("run", "missing PROGRAM");
    refused("run ''", "an argument is empty: expected [--] PROGRAM [ARGUMENT...]");
    refused("run -n 2 -- '' a", "an argument is empty: expected [--] PROGRAM [ARGUMENT...]");
    refused("run --nnodes 3:2 true", "--nnodes 3:2: expected a number from 1 to 1024, or MIN:MAX");
    refused("run --nnodes 1:2 true", "--nnodes 1:2 requires --rdzv-backend c10d");
    refused("run --nnodes 2 --node-rank 2 true", "--node-rank 2: expected less than --nnodes 2");
    refused("run --nnodes 2 --rdzv-backend c10d true", "requires --rdzv-endpoint HOST:PORT");
    refused("run --nnodes 2 --rdzv-endpoint a:b true", "--rdzv-endpoint a:b: expected HOST:PORT");
    refused("run --nnodes 2 --rdzv-conf colour=red true", "--rdzv-conf colour=red: unknown key");
    refused("run --rdzv-conf colour true", "--rdzv-conf colour: unknown key or");
    refused("run --hosts a:1 --hostfile /dev/null true", "--hosts and --hostfile exclude");
    refused("run --hostfile / true", "--hostfile /: Is a directory");
    refused("run --max-restarts -1 true", "--max-restarts -1: expected a whole number from 0");
    refused("run -r 4 true", "--redirects 4: expected 0 to 3");
    refused("run -n 2 -t 0:1,2:3 true", "--tee 0:1,2:3: expected 0 to 3");
    refused("run --local-ranks-filter 1 true", "expected local ranks below 1");
    refused("run --signals-to-handle SIGTERM,SIGKILL true", "expected names from SIGTERM");
    refused("run --nproc-per-node 0 true", "expected a number from 1");
    setenv("RANK", "0", 1);
    setenv("WORLD_SIZE", "2", 1);
    refused("train --nproc 4", "--nproc 4, but the environment says that there are 2 ranks");
}

YK_TEST(recipes_that_contradict_get_one_line)
{
    refused("train --optimizer adam --dampening 0.1", "--dampening applies to --optimizer sgd");
    refused("train --beta2 0.9",
            "--beta2 applies to --optimizer adam|adamw|nadam|radam|adamax|lamb, not sgd");
    refused("train --nesterov --momentum 0", "--nesterov requires a --momentum above 0");
    refused("train --nesterov --dampening 0.1", "no --dampening");
    refused("train --nesterov --optimizer adam", "--nesterov requires --optimizer sgd");
    refused("train --no-decay-norms --weight-decay 0", "requires a --weight-decay above 0");
    refused("train --schedule step", "needs a --step-size");
    refused("train --schedule multistep", "needs --milestones");
    refused("train --schedule multistep --milestones 5,3", "increasing numbers");
    refused("train --schedule multistep --milestones 5,", "increasing numbers");
    refused("train --schedule multistep --milestones 5x6", "increasing numbers");
    refused("train --gamma 0.5",
            "--gamma applies to --schedule step|multistep|exponential|cyclic, not constant");
    refused("train --schedule cosine --end-factor 1", "applies to --schedule triangle");
    refused("train --schedule triangle --warmup-epochs 1", "has its own warm-up");
    refused("train --schedule cosine --max-lr 1", "--max-lr applies to --schedule onecycle");
    refused("train --schedule cosine --warmup-epochs 10", "must be less than --epochs");
    refused("train --schedule polynomial --warmup-epochs 10", "must be less than --epochs");
    refused("train --schedule warmrestarts", "needs a --t-0");
    refused("train --schedule exponential", "needs a --gamma, such as 0.97");
    refused("train --schedule cosine --t-0 5", "--t-0 applies to --schedule warmrestarts, not");
    refused("train --schedule cosine --power 2", "--power applies to --schedule polynomial, not");
    refused("train --schedule polynomial --eta-min 1",
            "--eta-min applies to --schedule cosine|warmrestarts, not polynomial");
    refused("train --schedule onecycle --schedule-unit epoch", "at every step");
    refused("train --schedule onecycle --warmup-epochs 1", "has its own warm-up");
    refused("train --schedule onecycle --momentum 0", "--no-cycle-momentum");
    refused("train --schedule onecycle --lr 1 --max-lr 1", "give one of them");
    refused("train --schedule onecycle --momentum 0.5", "cycles the momentum");
    refused("train --schedule onecycle --optimizer muon --muon-momentum 0.5",
            "cycles the momentum");
    refused("train --schedule onecycle --optimizer adam --beta1 0.5", "cycles the momentum");
    refused("train --warmup-steps 5", "requires --schedule-unit step");
    refused("train --warmup-factor 0.5", "--warmup-factor requires --warmup-epochs");
    refused("train --no-cycle-momentum", "requires --schedule onecycle or cyclic");
    refused("train --schedule cyclic --cycle-mode exp_range", "needs a --gamma, such as 0.9999");
    refused("train --schedule cyclic --gamma 0.5", "needs --cycle-mode exp_range for a --gamma");
    refused("train --schedule cyclic --warmup-epochs 1", "--schedule cyclic has its own warm-up");
    refused("train --schedule cyclic --momentum 0", "set --momentum or --no-cycle-momentum");
    refused("train --schedule onecycle --base-lr 0.1", "--base-lr applies to --schedule cyclic");
    refused("train --schedule cyclic --step-size-up 0",
            "--step-size-up 0: expected a whole number");
    refused("train --warmup-method constant", "requires --warmup-epochs or --warmup-steps");
    refused("train --ema 1", "--ema 1: expected a number from 0 to 0.9999999 (");
    refused("train --label-smoothing 2", "--label-smoothing 2: expected a number from 0 to 1");
    refused("train --lr-scale cubic", "none|linear|sqrt");
}

YK_TEST(dashes_and_underscores_are_alike)
{
    refused("train --batch_size 127 --nproc 2", "126 or 128 can");
    refused("train --weight_decay=x", "--weight-decay x: expected a number");
    refused("run --max_restarts=x true", "--max-restarts x: expected a whole number");
    assert_int_equal(yoke("run --nproc_per_node=1 --no_python true"), 0);
}

YK_TEST(unknown_devices_are_refused)
{
    refused("train --arch mlp --device gpu",
            "--device \"gpu\": expected one of cpu, ref, sim, cuda");
    refused("train --arch mlp --device cuda:x",
            "--device \"cuda:x\": expected a type, or type:index");
    refused("train --arch mlp --device cpu:1", "--device \"cpu:1\": there is one cpu device");
    char line[700] = "train --arch mlp --device "; /* a name that is longer than an error line */
    memset(line + strlen(line), 'x', 600);
    refused(line, "xxxx\": expected one of cpu, ref, sim, cuda");
}

YK_TEST(info_says_what_is_here_and_why_something_is_not)
{
    assert_int_equal(yoke("info"), 0);
    static const char *const words[] = {"bf16",  "cores",       "threads",      "/dev/shm",
                                        "shm:",  "self:",       "mpi",          "nccl",
                                        "cuda:", "cpu: oneDNN", "ref: plain C", "sim: a simulated"};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        assert_contains(output, words[i]);
}

YK_TEST(info_lists_the_plans_that_are_kept)
{
    assert_int_equal(
        yk_test_command(output, sizeof output,
                        "cd %s && mkdir -p yoke/plans/Some-GPU-cudnn-9.19.0 yoke/plans/Other-1 &&"
                        " cd yoke/plans/Some* && touch 1.plan 2.plan 3.plan.77",
                        yk_test_directory()),
        0);
    setenv("XDG_CACHE_HOME", yk_test_directory(), 1);
    assert_int_equal(yoke("info"), 0);
    assert_contains(output, "  plans         Some-GPU-cudnn-9.19.0: 2 convolutions\n");
    assert_null(strstr(output, "Other-1"));
}

YK_TEST(info_says_which_folders_count)
{
    unsetenv("YOKE_SHM_DIR");
    unsetenv("HOME");
    setenv("XDG_CACHE_HOME", "relative", 1); /* which its specification has ignored */
    assert_int_equal(yoke("info"), 0);
    assert_contains(output, "shared memory limited by free RAM, not by the size of /dev/shm\n");
    assert_contains(output, "data cache    none: neither XDG_CACHE_HOME nor HOME is set\n");
    setenv("YOKE_SHM_DIR", "/no/such", 1);
    setenv("HOME", "/home/a", 1);
    assert_int_equal(yoke("info"), 0);
    assert_contains(output, "shared memory /no/such (YOKE_SHM_DIR): No such file or directory\n");
    assert_contains(output, "data cache    /home/a/.cache/yoke\n");
}
