/* The download, from files and from a server on the loopback: whole, resumed, damaged, hostile. */
#define _GNU_SOURCE
#include "cifar_files.h"
#include "images.h"

#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <yoke/readers.h>

#include "data/download/download.h"
#include "io/hash.h"

/* CACHE for this process, and an archive of a little CIFAR-10 to download into it. */
static const char *prepare(char archive[512], bool binary)
{
    char output[1024], cache[600], md5[YKI_MD5_TEXT];
    if (!yk_download_supported())
        skip_because("this build cannot download (it needs libcurl and libarchive)");
    const char *folder = fresh_folder();
    snprintf(cache, sizeof cache, "%s/cache", folder);
    setenv("XDG_CACHE_HOME", cache, 1);
    write_cifar(folder, binary, 4);
    snprintf(archive, 512, "%s/archive.tar.gz", folder);
    if (yk_test_command(output, sizeof output,
                        "cd %s && tar czf archive.tar.gz cifar-10-batches-%s", folder,
                        binary ? "bin" : "py"))
        skip_because("tar does not work here: %s", output);
    assert_ok(yki_md5_file(archive, md5));
    setenv("YOKE_CIFAR10_MD5", md5, 1);
    snprintf(cache, sizeof cache, "file://%s", archive);
    setenv("YOKE_CIFAR10_URL", cache, 1);
    return folder;
}

static void check_downloaded(const char *folder, bool binary)
{
    char path[512], expected[600], output[1024];
    assert_ok(yk_download_data(path, sizeof path, "cifar10", NULL));
    snprintf(expected, sizeof expected, "%s/cache/yoke/cifar-10-batches-%s", folder,
             binary ? "bin" : "py");
    assert_string_equal(path, expected);
    yk_dataset *dataset;
    assert_ok(yk_cifar10_open(&dataset, path, YK_SPLIT_TRAIN));
    assert_int_equal(yk_dataset_size(dataset), 20);
    assert_int_equal(image_of(dataset, 7, NULL)[9], row_pixel(1, 3, 9));
    yk_dataset_destroy(dataset);
    /* Nothing else stays: no archive, no half-unpacked folder. */
    yk_test_command(output, sizeof output, "ls %s/cache/yoke", folder);
    snprintf(expected, sizeof expected, "cifar-10-batches-%s\nlock\n", binary ? "bin" : "py");
    assert_string_equal(output, expected);
}

YK_TEST(downloads_once_and_then_needs_no_network)
{
    char archive[512];
    const char *folder = prepare(archive, false);
    check_downloaded(folder, false);
    setenv("YOKE_CIFAR10_URL", "file:///nowhere/at/all", 1);
    check_downloaded(folder, false);
}

YK_TEST(downloads_the_binary_version_too)
{
    char archive[512];
    check_downloaded(prepare(archive, true), true);
}

typedef struct seen {
    int calls;
    int64_t done, total;
} seen;

static void note_progress(void *user, int64_t done, int64_t total)
{
    seen *last = user;
    assert_true(done >= last->done && done <= total);
    *last = (seen){.calls = last->calls + 1, .done = done, .total = total};
}

/* Progress is the caller's to show: the library prints nothing. */
YK_TEST(a_download_reports_its_progress_and_prints_nothing)
{
    char archive[512], path[512], log[600];
    seen last = {.calls = 0};
    struct stat info;
    const char *folder = prepare(archive, false);
    assert_int_equal(stat(archive, &info), 0);
    snprintf(log, sizeof log, "%s/printed", folder);
    fflush(NULL);
    int saved = dup(STDERR_FILENO), file = open(log, O_CREAT | O_RDWR, 0600);
    dup2(file, STDERR_FILENO);
    yk_status status = yk_download_data(path, sizeof path, "cifar10",
                                        YK_WITH(yk_download_options, YK_DOWNLOAD_OPTIONS_INIT,
                                                o.progress = note_progress, o.user = &last));
    dup2(saved, STDERR_FILENO);
    assert_ok(status);
    assert_true(last.calls > 0);
    assert_int_equal(last.total, info.st_size);
    assert_int_equal(last.done, info.st_size);
    assert_int_equal(lseek(file, 0, SEEK_END), 0);
    close(file);
    close(saved);
}

YK_TEST(resumes_an_interrupted_download)
{
    char archive[512], output[256];
    const char *folder = prepare(archive, false);
    /* Half of it lies there; the first half at the source is gone bad, so only resuming works. */
    assert_int_equal(
        yk_test_command(
            output, sizeof output,
            "mkdir -p %s/cache/yoke/cifar10.part && cd %s && head -c 700 archive.tar.gz "
            "> cache/yoke/cifar10.part/cifar-10-python.tar.gz && printf xxxx | dd "
            "of=archive.tar.gz conv=notrunc status=none",
            folder, folder),
        0);
    check_downloaded(folder, false);
}

YK_TEST(a_damaged_archive_is_refused_and_removed)
{
    char archive[512], path[512], output[256];
    const char *folder = prepare(archive, false);
    setenv("YOKE_CIFAR10_MD5", "00000000000000000000000000000000", 1);
    assert_status(YK_ERROR_FORMAT, yk_download_data(path, sizeof path, "cifar10", NULL));
    assert_contains(yk_last_error(), "MD5");
    yk_test_command(output, sizeof output, "ls %s/cache/yoke", folder);
    assert_string_equal(output, "lock\n");
    unsetenv("YOKE_CIFAR10_MD5"); /* then the official ones count */
    assert_status(YK_ERROR_FORMAT, yk_download_data(path, sizeof path, "cifar10", NULL));
    assert_contains(yk_last_error(), "c58f30108f718f92721af3b95e74349a");
}

YK_TEST(a_damaged_cache_is_replaced)
{
    char archive[512], output[256];
    const char *folder = prepare(archive, false);
    check_downloaded(folder, false);
    assert_int_equal(yk_test_command(output, sizeof output,
                                     "truncate -s 100 "
                                     "%s/cache/yoke/cifar-10-batches-py/data_batch_2",
                                     folder),
                     0);
    check_downloaded(folder, false);
}

YK_TEST(offline_it_says_how_to_go_on)
{
    char archive[512], path[512];
    prepare(archive, false);
    char url[64];
    snprintf(url, sizeof url, "http://127.0.0.1:%d/x", yk_test_free_port());
    setenv("YOKE_CIFAR10_URL", url, 1);
    assert_status(YK_ERROR_NETWORK, yk_download_data(path, sizeof path, "cifar10", NULL));
    assert_contains(yk_last_error(), "--data cifar10:DIR");
    assert_contains(yk_last_error(), "--data synthetic");
    assert_contains(yk_last_error(), url);
    assert_null(strchr(yk_last_error(), '\n'));
}

/* Unpacks an archive that a shell command makes in its own folder; returns the error's text. */
static void hostile(const char *command, const char *words)
{
    char output[2048], archive[512], target[512];
    if (!yk_download_supported())
        skip_because("this build cannot unpack archives (it needs libcurl and libarchive)");
    const char *folder = fresh_folder();
    int version;
    snprintf(archive, sizeof archive, "%s/hostile/a.tgz", folder);
    snprintf(target, sizeof target, "%s/hostile/out", folder);
    int code = yk_test_command(output, sizeof output,
                               "rm -rf %s/hostile && mkdir -p %s/hostile/out && cd %s/hostile && "
                               "mkdir cifar-10-batches-py && %s",
                               folder, folder, folder, command);
    if (code)
        skip_because("cannot make the archive: %s", output);
    assert_status(YK_ERROR_FORMAT, yki_unpack(&yki_cifar10_archive, archive, target, &version));
    assert_contains(yk_last_error(), words);
    yk_test_command(output, sizeof output, "ls -A %s", target);
    assert_null(strstr(output, "evil"));
}

YK_TEST(promise_31_hostile_archives_are_refused)
{
    hostile("echo x > evil && tar czPf a.tgz ../hostile/evil", "../hostile/evil");
    hostile("echo x > evil && tar czPf a.tgz $PWD/evil", "evil");
    hostile("echo x > cifar-10-batches-py/evil && tar czf a.tgz cifar-10-batches-py", "evil");
    hostile("ln -s /etc/passwd cifar-10-batches-py/test_batch && "
            "tar czf a.tgz cifar-10-batches-py",
            "test_batch");
    hostile("echo x > cifar-10-batches-py/test_batch && ln cifar-10-batches-py/test_batch "
            "cifar-10-batches-py/data_batch_1 && tar czf a.tgz cifar-10-batches-py",
            "which CIFAR-10's archive does not");
    hostile("truncate -s 100M cifar-10-batches-py/test_batch && "
            "tar czf a.tgz cifar-10-batches-py",
            "more than 67108864 bytes");
    hostile("echo x > cifar-10-batches-py/test_batch && tar czf b.tgz cifar-10-batches-py && "
            "head -c 60 b.tgz > a.tgz",
            "a.tgz");
    hostile("echo no archive at all > a.tgz", "a.tgz");
}

/* ---- over HTTP ------------------------------------------------------------------------------ */

static pid_t start_server(const char *folder, int port)
{
    pid_t pid = yk_test_fork();
    if (pid == 0) {
        char number[16];
        snprintf(number, sizeof number, "%d", port);
        if (chdir(folder) == 0 && freopen("/dev/null", "w", stderr) &&
            freopen("/dev/null", "w", stdout))
            execlp("python3", "python3", "-m", "http.server", "--bind", "127.0.0.1", number,
                   (char *)NULL);
        _exit(127);
    }
    return pid;
}

/* Downloads the named data from a server of the folder's files, which it starts and ends. */
static yk_status download_from_server(const char *folder, int port, const char *name)
{
    char path[512];
    pid_t server = start_server(folder, port);
    yk_status status = YK_ERROR_NETWORK;
    for (int i = 0; i < 200 && status == YK_ERROR_NETWORK; i++) { /* until the server listens */
        status = yk_download_data(path, sizeof path, name, NULL);
        usleep(status == YK_OK ? 0 : 50000);
    }
    kill(server, SIGKILL);
    waitpid(server, NULL, 0);
    return status;
}

static void need_server(void)
{
    char output[256];
    if (yk_test_command(output, sizeof output, "python3 -c 'import http.server'"))
        skip_because("no python3 to serve files");
}

/* The port of a server that is to be asked for CIFAR-10. */
static int choose_server(void)
{
    char url[128];
    need_server();
    int port = yk_test_free_port();
    snprintf(url, sizeof url, "http://127.0.0.1:%d/archive.tar.gz", port);
    setenv("YOKE_CIFAR10_URL", url, 1);
    return port;
}

YK_TEST(downloads_over_http_even_if_the_server_cannot_resume)
{
    char archive[512], output[256];
    const char *folder = prepare(archive, false);
    int port = choose_server();
    yk_test_command(output, sizeof output,
                    "mkdir -p %s/cache/yoke/cifar10.part && printf stale > "
                    "%s/cache/yoke/cifar10.part/cifar-10-python.tar.gz",
                    folder, folder);
    assert_ok(download_from_server(folder, port, "cifar10"));
    check_downloaded(folder, false);
}

/* Says that what follows byte START of the file is of unknown size, and sends it without an end. */
static const char *const endless_server =
    "import socket\n"
    "s = socket.socket()\n"
    "s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)\n"
    "s.bind((\"127.0.0.1\", %d))\n"
    "s.listen(1)\n"
    "while True:\n"
    "    c = s.accept()[0]\n"
    "    c.recv(65536)\n"
    "    c.sendall(b\"HTTP/1.1 206 Partial Content\\r\\nContent-Range: bytes %d-/*\\r\\n\\r\\n\")\n"
    "    try:\n"
    "        while True: c.sendall(bytes(65536))\n"
    "    except OSError: pass\n";

YK_TEST(promise_31_a_download_without_an_end_is_given_up)
{
    enum {
        LIMIT = 1 << 30,
        ALMOST = LIMIT - 100000
    }; /* what has come so far takes no disk space */
    char archive[512], output[256], script[1024], path[512];
    const char *folder = prepare(archive, false);
    int port = choose_server();
    yk_test_command(output, sizeof output,
                    "cd %s && mkdir -p cache/yoke/cifar10.part && truncate -s %d "
                    "cache/yoke/cifar10.part/cifar-10-python.tar.gz",
                    folder, ALMOST);
    snprintf(script, sizeof script, endless_server, port, ALMOST);
    pid_t server = yk_test_fork();
    if (server == 0) {
        execlp("python3", "python3", "-c", script, (char *)NULL);
        _exit(127);
    }
    while (yk_download_data(path, sizeof path, "cifar10", NULL) == YK_ERROR_NETWORK &&
           !strstr(yk_last_error(), "more than"))
        usleep(50000); /* until the server listens */
    assert_contains(yk_last_error(), "it has more than 1073741824 bytes");
    kill(server, SIGKILL);
    waitpid(server, NULL, 0);
    yk_test_command(output, sizeof output, "du -sk --apparent-size %s/cache", folder);
    assert_true(atoi(output) < 1000); /* nothing to resume from */
}

/* ---- data sets of several files ------------------------------------------------------------- */

/* MNIST's four files with 3 images each in FOLDER/files, and their checksums for this process. */
static const char *prepare_mnist(void)
{
    static const char *const names[] = {"train-images-idx3-ubyte", "train-labels-idx1-ubyte",
                                        "t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte"};
    uint8_t images[16 + 3 * 4 * 5] = {0, 0, 8, 3, 0, 0, 0, 3, 0, 0, 0, 4, 0, 0, 0, 5};
    uint8_t labels[8 + 3] = {0, 0, 8, 1, 0, 0, 0, 3, 9, 1, 4};
    char path[600], url[600], output[256], sums[4 * YKI_MD5_TEXT] = "";
    if (!yk_download_supported())
        skip_because("this build cannot download (it needs libcurl and libarchive)");
    const char *folder = fresh_folder();
    snprintf(path, sizeof path, "%s/cache", folder);
    setenv("XDG_CACHE_HOME", path, 1);
    assert_int_equal(yk_test_command(output, sizeof output, "mkdir %s/files", folder), 0);
    for (int i = 0; i < 4; i++) {
        images[16] = (uint8_t)i;
        snprintf(path, sizeof path, "%s/files/%s", folder, names[i]);
        FILE *file = fopen(path, "wb");
        assert_non_null(file);
        fwrite(i % 2 ? labels : images, 1, i % 2 ? sizeof labels : sizeof images, file);
        fclose(file);
        assert_int_equal(yk_test_command(output, sizeof output, "gzip -n %s", path), 0);
        snprintf(path, sizeof path, "%s/files/%s.gz", folder, names[i]);
        assert_ok(yki_md5_file(path, sums + i * YKI_MD5_TEXT));
        sums[(i + 1) * YKI_MD5_TEXT - 1] = i < 3 ? ',' : '\0';
    }
    snprintf(url, sizeof url, "file://%s/files", folder);
    setenv("YOKE_FASHION_MNIST_URL", url, 1);
    setenv("YOKE_FASHION_MNIST_MD5", sums, 1);
    return folder;
}

static void check_fashion_mnist(const char *folder)
{
    char path[512], expected[600], output[256];
    yk_dataset *dataset;
    assert_ok(yk_download_data(path, sizeof path, "fashion-mnist", NULL));
    snprintf(expected, sizeof expected, "%s/cache/yoke/fashion-mnist", folder);
    assert_string_equal(path, expected);
    assert_ok(yk_fashion_mnist_open(&dataset, path, YK_SPLIT_TEST));
    assert_string_equal(yk_dataset_class_name(dataset, 9), "Ankle boot");
    assert_int_equal(yk_dataset_size(dataset), 3);
    yk_dataset_destroy(dataset);
    yk_test_command(output, sizeof output, "ls %s/cache/yoke", folder);
    assert_string_equal(output, "fashion-mnist\nlock\n");
}

YK_TEST(several_files_are_downloaded_and_those_that_have_arrived_are_kept)
{
    char path[512], output[256];
    const char *folder = prepare_mnist();
    assert_status(YK_ERROR_NOT_FOUND, yk_download_find(path, sizeof path, "fashion-mnist"));
    yk_test_command(output, sizeof output, "mv %s/files/t10k-images* %s", folder, folder);
    assert_status(YK_ERROR_NETWORK, yk_download_data(path, sizeof path, "fashion-mnist", NULL));
    assert_contains(yk_last_error(), "--data fashion-mnist:DIR");
    yk_test_command(output, sizeof output, "mv %s/t10k-images* %s/files; rm %s/files/train*",
                    folder, folder, folder);
    check_fashion_mnist(folder);
    setenv("YOKE_FASHION_MNIST_URL", "file:///nowhere", 1);
    check_fashion_mnist(folder);
    assert_ok(yk_download_find(path, sizeof path, "fashion-mnist"));
    assert_status(YK_ERROR_NOT_FOUND, yk_download_find(path, sizeof path, "mnist"));
}

YK_TEST(several_files_are_downloaded_over_http)
{
    char url[128];
    const char *folder = prepare_mnist();
    need_server();
    int port = yk_test_free_port();
    snprintf(url, sizeof url, "http://127.0.0.1:%d/files", port);
    setenv("YOKE_FASHION_MNIST_URL", url, 1);
    assert_ok(download_from_server(folder, port, "fashion-mnist"));
    check_fashion_mnist(folder);
}

YK_TEST(each_file_has_its_own_checksum)
{
    char path[512], output[256];
    const char *folder = prepare_mnist();
    yk_test_command(output, sizeof output, "cd %s/files; cp train-l* t10k-i*", folder);
    assert_status(YK_ERROR_FORMAT, yk_download_data(path, sizeof path, "fashion-mnist", NULL));
    assert_contains(yk_last_error(), "t10k-images-idx3-ubyte.gz: its MD5 is ");
    unsetenv("YOKE_FASHION_MNIST_MD5"); /* then the official ones count */
    assert_status(YK_ERROR_FORMAT, yk_download_data(path, sizeof path, "fashion-mnist", NULL));
    assert_contains(yk_last_error(), "8d4fb7e6c68d591d4c3dfef9ec88bf0d");
}

YK_TEST(only_known_names_are_downloaded)
{
    static const char *const names[] = {"cifar10", "cifar100", "mnist", "fashion-mnist"};
    char path[512];
    for (int i = 0; i < 4; i++)
        assert_string_equal(yk_download_name(i), names[i]);
    assert_null(yk_download_name(4));
    assert_null(yk_download_name(-1));
    assert_status(YK_ERROR_INVALID_ARGUMENT, yk_download_data(path, sizeof path, "imagenet", NULL));
    assert_contains(yk_last_error(), "expected cifar10, cifar100, mnist or fashion-mnist");
}

/* ---- several processes ---------------------------------------------------------------------- */

/* Several processes at once: one downloads, the others wait and find it. */
static void one_of_many(int rank, int world)
{
    (void)world;
    char path[512];
    yk_status status = yk_download_data(path, sizeof path, "cifar10", NULL);
    if (status != YK_OK)
        fprintf(stderr, "rank %d: %s\n", rank, yk_last_error());
    assert_int_equal(status, YK_OK);
}

YK_TEST(processes_at_once_download_once)
{
    char archive[512];
    const char *folder = getenv("YK_TEST_RANK") ? NULL : prepare(archive, false);
    yk_test_ranks(6, one_of_many);
    check_downloaded(folder, false);
}
