/* The pickle reader: what Python 2 and torch.save write, and all that is refused. */
#define _GNU_SOURCE
#include "harness.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/random.h"
#include "io/pickle.h"

/* A literal's bytes without its closing zero. */
#define PICKLE(literal) (literal), sizeof(literal) - 1

static yki_pickle *read_pickle(const void *data, size_t size)
{
    yki_pickle *pickle = NULL;
    assert_ok(yki_pickle_parse(&pickle, "file", data, size, NULL));
    return pickle;
}

/* The reader refuses it, with these words. */
static void refused(const void *data, size_t size, const char *words)
{
    yki_pickle *pickle = NULL;
    assert_status(YK_ERROR_FORMAT, yki_pickle_parse(&pickle, "file", data, size, NULL));
    assert_null(pickle);
    assert_contains(yk_last_error(), words);
}

YK_TEST(reads_every_kind_of_leaf)
{
    yki_pickle *pickle = read_pickle(PICKLE("\x80\x02("
                                            "N\x88\x89K\x07M\x01\x02J\xff\xff\xff\xff"
                                            "\x8a\x05\x00\x00\x00\x00\x01\x8a\x00\x8a\x01\xfe"
                                            "G\x3f\xf8\x00\x00\x00\x00\x00\x00"
                                            "U\x02hiT\x03\x00\x00\x00yesX\x02\x00\x00\x00\xc3\xa9"
                                            "ccollections\nOrderedDict\n\x8ft."));
    const yki_pickle_value *root = yki_pickle_root(pickle);
    assert_true(yki_pickle_is(root, YKI_PICKLE_TUPLE));
    assert_int_equal(root->count, 15);
    assert_true(yki_pickle_is(yki_pickle_item(root, 0), YKI_PICKLE_NONE));
    assert_int_equal(yki_pickle_item(root, 1)->integer, 1);
    assert_int_equal(yki_pickle_item(root, 2)->integer, 0);
    assert_int_equal(yki_pickle_item(root, 3)->integer, 7);
    assert_int_equal(yki_pickle_item(root, 4)->integer, 513);
    assert_int_equal(yki_pickle_item(root, 5)->integer, -1);
    assert_int_equal(yki_pickle_item(root, 6)->integer, (int64_t)1 << 32);
    assert_int_equal(yki_pickle_item(root, 7)->integer, 0);
    assert_int_equal(yki_pickle_item(root, 8)->integer, -2);
    assert_true(yki_pickle_item(root, 9)->real == 1.5);
    assert_true(yki_pickle_is_text(yki_pickle_item(root, 10), "hi"));
    assert_true(yki_pickle_is_text(yki_pickle_item(root, 11), "yes"));
    assert_true(yki_pickle_is_text(yki_pickle_item(root, 12), "\xc3\xa9"));
    assert_true(yki_pickle_is_global(yki_pickle_item(root, 13), "collections", "OrderedDict"));
    assert_true(yki_pickle_is(yki_pickle_item(root, 14), YKI_PICKLE_SET));
    assert_null(yki_pickle_item(root, 15));
    yki_pickle_destroy(pickle);
}

/* What stands for them in protocols 3 to 5. */
YK_TEST(reads_later_protocols)
{
    yki_pickle *pickle = read_pickle(PICKLE("\x80\x05\x95\x01\x00\x00\x00\x00\x00\x00\x00"
                                            "(C\x02hi\x94"
                                            "B\x03\x00\x00\x00yes\x94"
                                            "\x8e\x01\x00\x00\x00\x00\x00\x00\x00x"
                                            "\x96\x01\x00\x00\x00\x00\x00\x00\x00y\x8c\x02\xc3\xa9"
                                            "\x8d\x01\x00\x00\x00\x00\x00\x00\x00z"
                                            "\x8c\x0b"
                                            "collections\x8c\x0bOrderedDict\x93\x94"
                                            "h\x01h\x02t."));
    const yki_pickle_value *root = yki_pickle_root(pickle);
    static const char *const texts[] = {"hi", "yes", "x", "y", "\xc3\xa9", "z"};
    for (size_t i = 0; i < 6; i++)
        assert_true(yki_pickle_is_text(yki_pickle_item(root, i), texts[i]));
    assert_true(yki_pickle_is(yki_pickle_item(root, 3), YKI_PICKLE_BYTES));
    assert_true(yki_pickle_is(yki_pickle_item(root, 4), YKI_PICKLE_STRING));
    assert_true(yki_pickle_is_global(yki_pickle_item(root, 6), "collections", "OrderedDict"));
    assert_true(yki_pickle_is_text(yki_pickle_item(root, 7), "yes"));
    assert_ptr_equal(yki_pickle_item(root, 8), yki_pickle_item(root, 6));
    yki_pickle_destroy(pickle);
    refused(PICKLE("\x80\x04K\x01K\x02\x93."), "the names of a module and of something in it");
    refused(PICKLE("\x80\x04\x8e\xff\xff\xff\xff\xff\xff\xff\xff."), "more bytes");
    refused(PICKLE("\x80\x04N\x94\x94\x94."), "memo index 2");
}

YK_TEST(reads_sets_of_protocol_4)
{
    yki_pickle *pickle = read_pickle(PICKLE("\x80\x04\x8f\x94(K\x01K\x02\x90(K\x03\x91\x94\x86."));
    const yki_pickle_value *root = yki_pickle_root(pickle);
    const yki_pickle_value *set = yki_pickle_item(root, 0), *frozen = yki_pickle_item(root, 1);
    assert_true(yki_pickle_is(set, YKI_PICKLE_SET) && set->count == 2);
    assert_int_equal(set->items[1]->integer, 2);
    assert_true(yki_pickle_is(frozen, YKI_PICKLE_SET) && frozen->count == 1);
    yki_pickle_destroy(pickle);
    refused(PICKLE("\x80\x04](K\x01\x90."), "expected a set to put values into, found a list");
}

/* Python 3 has no opcode for bytes in protocol 2. Those above 127 are left to the file's reader. */
YK_TEST(bytes_of_python_3_in_protocol_2)
{
    yki_pickle *pickle =
        read_pickle(PICKLE("\x80\x02"
                           "c_codecs\nencode\nX\x02\x00\x00\x00hiX\x06\x00\x00\x00"
                           "latin1\x86R"
                           "c_codecs\nencode\nX\x02\x00\x00\x00\xc3\xa9X\x06\x00\x00\x00"
                           "latin1\x86R\x86."));
    const yki_pickle_value *root = yki_pickle_root(pickle);
    assert_true(yki_pickle_is(yki_pickle_item(root, 0), YKI_PICKLE_BYTES));
    assert_true(yki_pickle_is_text(yki_pickle_item(root, 0), "hi"));
    assert_true(yki_pickle_is_call(yki_pickle_item(root, 1), "_codecs", "encode"));
    yki_pickle_destroy(pickle);
}

/* As numpy's generators have them in their state. */
YK_TEST(integers_beyond_64_bits_become_floats)
{
    yki_pickle *pickle = read_pickle(PICKLE("\x80\x02\x8a\x09\x00\x00\x00\x00\x00\x00\x00\x00\x40"
                                            "\x8a\x09\x00\x00\x00\x00\x00\x00\x00\x00\xff\x86."));
    const yki_pickle_value *root = yki_pickle_root(pickle);
    assert_true(yki_pickle_is(yki_pickle_item(root, 0), YKI_PICKLE_FLOAT));
    assert_true(yki_pickle_item(root, 0)->real == 0x1p70);
    assert_true(yki_pickle_item(root, 1)->real == -0x1p64);
    yki_pickle_destroy(pickle);
}

/* What torch.save writes for {"w": tensor} in an OrderedDict with _metadata, abridged. */
YK_TEST(reads_calls_persistent_ids_and_state)
{
    static const char bytes[] = "\x80\x02"
                                "ccollections\nOrderedDict\nq\x00)Rq\x01("
                                "X\x01\x00\x00\x00wq\x02"
                                "ctorch._utils\n_rebuild_tensor_v2\nq\x03("
                                "(X\x07\x00\x00\x00storagetQ"
                                "K\x00K\x05\x85K\x01\x85\x89h\x00)RtR"
                                "u}X\x09\x00\x00\x00_metadatah\x00)Rsb.";
    yki_pickle *pickle = read_pickle(PICKLE(bytes));
    const yki_pickle_value *root = yki_pickle_root(pickle);
    assert_true(yki_pickle_is_call(root, "collections", "OrderedDict"));
    assert_int_equal(yki_pickle_pairs(root), 1);
    assert_true(yki_pickle_is_text(yki_pickle_key(root, 0), "w"));
    const yki_pickle_value *tensor = yki_pickle_get(root, "w");
    assert_ptr_equal(tensor, yki_pickle_pair_value(root, 0));
    assert_true(yki_pickle_is_call(tensor, "torch._utils", "_rebuild_tensor_v2"));
    const yki_pickle_value *arguments = yki_pickle_arguments(tensor);
    assert_int_equal(arguments->count, 6);
    const yki_pickle_value *storage = yki_pickle_item(arguments, 0);
    assert_true(yki_pickle_is(storage, YKI_PICKLE_PERSISTENT));
    assert_true(yki_pickle_is_text(yki_pickle_item(storage->items[0], 0), "storage"));
    const yki_pickle_value *built = yki_pickle_state(root);
    assert_true(
        yki_pickle_is_call(yki_pickle_get(built, "_metadata"), "collections", "OrderedDict"));
    yki_pickle_destroy(pickle);
}

/* deque([1, 2]) and deque([1]), as Python writes them. */
YK_TEST(items_of_objects_like_lists_are_left_out)
{
    yki_pickle *pickle = read_pickle(PICKLE("\x80\x02(ccollections\ndeque\nq\x00)Rq\x01(K\x01K\x02"
                                            "eh\x00)RK\x01"
                                            "aK\x07t."));
    const yki_pickle_value *root = yki_pickle_root(pickle);
    assert_int_equal(root->count, 3);
    for (size_t i = 0; i < 2; i++) {
        const yki_pickle_value *deque = yki_pickle_item(root, i);
        assert_true(yki_pickle_is_call(deque, "collections", "deque"));
        assert_int_equal(yki_pickle_pairs(deque), 0);
    }
    assert_int_equal(yki_pickle_item(root, 2)->integer, 7);
    yki_pickle_destroy(pickle);
    refused(PICKLE("\x80\x02}(K\x01"
                   "e."),
            "expected a list to put values into, found a dict");
}

YK_TEST(text_is_a_view_and_the_last_equal_key_counts)
{
    static const char bytes[] = "\x80\x02}(U\x01"
                                "aK\x01U\x01"
                                "aK\x02u.";
    yki_pickle *pickle = read_pickle(PICKLE(bytes));
    const yki_pickle_value *root = yki_pickle_root(pickle);
    assert_int_equal(yki_pickle_get(root, "a")->integer, 2);
    assert_true(yki_pickle_key(root, 0)->text == bytes + 6);
    assert_null(yki_pickle_get(root, "b"));
    yki_pickle_destroy(pickle);
}

YK_TEST(refuses_what_is_malformed_and_says_where)
{
    refused("", 0, "file: offset 0: needs 1 more bytes");
    refused(PICKLE("(lp0\n."), "protocol 2");
    refused(PICKLE("\x80\x06N."), "protocol 2 to 5, found 6");
    refused(PICKLE("\x80\x02N"), "offset 3: needs 1 more bytes");
    refused(PICKLE("\x80\x02NN."), "STOP with 1 values");
    refused(PICKLE("\x80\x02(N."), "STOP with 0 values and 1 marks");
    refused(PICKLE("\x80\x02N.x"), "1 bytes left");
    refused(PICKLE("\x80\x02."), "needs 1 values");
    refused(PICKLE("\x80\x02t."), "MARK");
    refused(PICKLE("\x80\x02N(\x85."), "needs 1 values on the stack, which holds 0");
    refused(PICKLE("\x80\x02T\xff\xff\xff\xffxx."), "needs 4294967295 more bytes, 3 are left");
    refused(PICKLE("\x80\x02h\x00."), "memo index 0");
    refused(PICKLE("\x80\x02j\xff\xff\xff\xff."), "memo index 4294967295");
    refused(PICKLE("\x80\x02Nr\xff\xff\xff\xff."), "only 1 values");
    refused(PICKLE("\x80\x02\x8a\x09"
                   "12345678"),
            "needs 9 more bytes, 8 are left");
    refused(PICKLE("\x80\x02}(NNNu."), "pairs");
    refused(PICKLE("\x80\x02NNa."), "expected a list");
    refused(PICKLE("\x80\x02]N}b."), "expected a call");
    refused(PICKLE("\x80\x02N)R."), "expected a global and a tuple");
    refused(PICKLE("\x80\x02"
                   "cos\nsystem"),
            "newline");
    refused(PICKLE("\x80\x02\x92."), "opcode 0x92");
    refused(PICKLE("\x80\x02"
                   "ios\nsystem\n."),
            "opcode 0x69");
}

YK_TEST(refuses_cycles)
{
    refused(PICKLE("\x80\x02]q\x00h\x00"
                   "a."),
            "after it was put");
    refused(PICKLE("\x80\x02]q\x00]q\x01h\x00"
                   "a0."),
            "opcode 0x30");
    refused(PICKLE("\x80\x02(]q\x00]q\x01h\x00"
                   "ah\x00h\x01"
                   "at."),
            "after it was put");
    refused(PICKLE("\x80\x02"
                   "ca\nb\n)Rq\x00h\x00"
                   "b."),
            "after it was put");
}

YK_TEST(refuses_what_is_nested_too_deep)
{
    char bytes[2 + 1 + 100000 + 1];
    memset(bytes, '\x85', sizeof bytes);
    memcpy(bytes, "\x80\x02N", 3);
    bytes[sizeof bytes - 1] = '.';
    refused(bytes, sizeof bytes, "nested deeper than 100");
    bytes[3 + YKI_PICKLE_DEPTH] = '.';
    yki_pickle_destroy(read_pickle(bytes, 3 + YKI_PICKLE_DEPTH + 1));
}

YK_TEST(runs_nothing_and_accepts_only_the_globals_it_is_told)
{
    static const char *const globals[] = {"collections\nOrderedDict", NULL};
    static const char bytes[] = "\x80\x02"
                                "cos\nsystem\nU\x09touch /x\n\x85R.";
    yki_pickle *pickle = NULL;
    assert_status(YK_ERROR_FORMAT, yki_pickle_parse(&pickle, "file", PICKLE(bytes), globals));
    assert_contains(yk_last_error(), "file: offset 2: refers to os.system");
    static const char good[] = "\x80\x02"
                               "ccollections\nOrderedDict\n)R.";
    assert_ok(yki_pickle_parse(&pickle, "file", PICKLE(good), globals));
    yki_pickle_destroy(pickle);
}

/* Memory stays below a small multiple of the input for the opcodes that make most of a byte. */
YK_TEST(promise_31_memory_is_bounded_by_the_size_of_the_pickle)
{
    static const char *const patterns[] = {"N",      "]",  "}",    "(",     "]Na", "N\x85",
                                           "]q\x01", "()", "}NNs", ")\x86", "((N", "NN\x86"};
    enum { SIZE = 1 << 20 };
    char *bytes = malloc(SIZE);
    for (size_t p = 0; p < sizeof patterns / sizeof *patterns; p++) {
        size_t length = strlen(patterns[p]);
        for (size_t i = 0; i + 3 < SIZE; i++)
            bytes[2 + i] = patterns[p][i % length];
        memcpy(bytes, "\x80\x02", 2);
        for (size_t i = 2; i < SIZE; i++) /* all into one tuple, where they can be */
            bytes[i] = i == 2 ? '(' : i == SIZE - 2 ? 't' : i == SIZE - 1 ? '.' : bytes[i];
        yki_pickle *pickle = NULL;
        if (yki_pickle_parse(&pickle, "file", bytes, SIZE, NULL) == YK_OK) {
            assert_true(yki_pickle_peak(pickle) < YKI_PICKLE_FACTOR * (size_t)SIZE);
            yki_pickle_destroy(pickle);
        } else {
            assert_null(strstr(yk_last_error(), "bytes of memory"));
        }
    }
    free(bytes);
}

/* Of 2^31 values or marks the machine could not count on. Nothing of the input is looked at. */
YK_TEST(promise_31_a_pickle_beyond_2_gib_is_refused)
{
    size_t size = (size_t)1 << 31;
    void *zeros = mmap(NULL, size, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    assert_true(zeros != MAP_FAILED);
    refused(zeros, size, "at most 2 GiB are read");
    refused(zeros, size - 1, "file: offset 0: expected a pickle of protocol 2");
    munmap(zeros, size);
}

/* Random edits of a real shape, and random runs of valid opcodes: never a crash (sanitizers). */
YK_TEST(promise_31_pickle_fuzz)
{
    static const char seed[] = "\x80\x02}q\x01(U\x06labelsq\x02]q\x03(K\x01K\x02"
                               "eU\x04"
                               "data"
                               "cnumpy\nndarray\nq\x04K\x00\x85U\x01"
                               "b\x87Rq\x05(K\x01M\x10\x27\x86NtbX\x03\x00\x00\x00xyzG12345678"
                               "\x8a\x02\x01\x02u.";
    static const char opcodes[] = "(.JKMGNQRTUXabcehjqrstu)]}\x81\x85\x86\x87\x88\x89\x8a\x8f";
    char bytes[sizeof seed];
    for (uint64_t round = 0; round < 200000; round++) {
        size_t size = sizeof seed - 1;
        memcpy(bytes, seed, size);
        for (uint64_t edit = 0; edit <= yki_hash3(round, 0, 0) % 4; edit++) {
            uint64_t draw = yki_hash3(round, 1, edit);
            size_t at = 2 + draw % (size - 2);
            bytes[at] =
                draw >> 63 ? (char)(draw >> 32) : opcodes[(draw >> 32) % (sizeof opcodes - 1)];
        }
        if (round % 3 == 0)
            for (size_t i = 2; i < size; i++)
                bytes[i] = opcodes[yki_hash3(round, 2, i) % (sizeof opcodes - 1)];
        if (round % 5 == 0)
            size = yki_hash3(round, 3, 0) % size;
        yki_pickle *pickle = NULL;
        if (yki_pickle_parse(&pickle, "file", bytes, size, NULL) == YK_OK)
            yki_pickle_destroy(pickle);
    }
}
