/* Messages between ranks on any backend (YOKE_BACKEND): several at once, in every direction. */
#define _GNU_SOURCE
#include "harness.h"

#include <stdlib.h>
#include <string.h>

enum { LARGE = 24 << 20 };

static yk_group *join(void)
{
    yk_group *group = NULL;
    assert_ok(
        yk_group_init(&group, YK_WITH(yk_group_options, YK_GROUP_OPTIONS_INIT, o.timeout_s = 60)));
    return group;
}

static yk_message send_to(int peer, void *data, size_t count, yk_dtype dtype)
{
    return (yk_message){
        .kind = YK_MESSAGE_SEND, .peer = peer, .data = data, .count = count, .dtype = dtype};
}

static yk_message receive_from(int peer, void *data, size_t count, yk_dtype dtype)
{
    return (yk_message){
        .kind = YK_MESSAGE_RECV, .peer = peer, .data = data, .count = count, .dtype = dtype};
}

/* Byte i of message `number` from one rank to another. */
static unsigned char byte_of(int from, int to, int number, size_t i)
{
    return (unsigned char)(i * 7 + i / 251 + (size_t)(31 * from + 17 * to + 5 * number));
}

static void fill(unsigned char *data, size_t count, int from, int to, int number)
{
    for (size_t i = 0; i < count; i++)
        data[i] = byte_of(from, to, number, i);
}

static void check(const unsigned char *data, size_t count, int from, int to, int number)
{
    for (size_t i = 0; i < count; i++)
        if (data[i] != byte_of(from, to, number, i))
            fail_msg("message %d from rank %d to rank %d: byte %zu is %d, not %d", number, from, to,
                     i, data[i], byte_of(from, to, number, i));
}

/* ---- all at once ----------------------------------------------------------------------------- */

/* Both start to send before they receive, in any order, with a work and without. */
YK_TEST_RANKS(two_ranks_send_to_each_other, 2)
{
    (void)world;
    static const size_t counts[] = {0, 1, 33, 4096, 70001, LARGE};
    yk_group *group = join();
    void *shared;
    unsigned char *out = malloc(LARGE), *in = malloc(LARGE);
    assert_ok(yk_group_alloc(group, LARGE, &shared));
    for (size_t c = 0; c < sizeof counts / sizeof *counts; c++)
        for (int way = 0; way < 4; way++) {
            unsigned char *from = way & 1 ? shared : out;
            yk_work *work = NULL;
            yk_message messages[2];
            messages[way >> 1] = send_to(1 - rank, from, counts[c], YK_U8);
            messages[1 - (way >> 1)] = receive_from(1 - rank, in, counts[c], YK_U8);
            fill(from, counts[c], rank, 1 - rank, way);
            assert_ok(yk_batch_send_recv(group, messages, 2, way == 1 || way == 2 ? &work : NULL));
            if (work)
                assert_ok(yk_work_wait(work));
            check(in, counts[c], 1 - rank, rank, way);
        }
    free(out);
    free(in);
    yk_group_destroy(group);
}

/* Every rank sends several messages to every other one; those between two ranks keep their order,
 * in which the receiver and the sender list them, whatever is between them. */
YK_TEST_RANKS(every_rank_sends_to_every_other, 4)
{
    enum { EACH = 5, MOST = 40000 };
    static const size_t sizes[EACH] = {3, MOST, 0, 1000, 33000};
    yk_group *group = join();
    unsigned char *out = malloc(4 * EACH * MOST), *in = malloc(4 * EACH * MOST);
    yk_message messages[2 * 4 * EACH];
    for (int round = 0; round < 3; round++) {
        size_t count = 0;
        for (int i = 0; i < EACH; i++)
            for (int step = 1; step < world; step++) {
                int to = (rank + step) % world, from = (rank + step + round) % world;
                unsigned char *sent = out + (to * EACH + i) * MOST;
                fill(sent, sizes[i], rank, to, i);
                messages[count++] = send_to(to, sent, sizes[i], YK_U8);
                if (from == rank)
                    from = (rank + round) % world;
                messages[count++] =
                    receive_from(from, in + (from * EACH + i) * MOST, sizes[i], YK_U8);
            }
        assert_ok(yk_batch_send_recv(group, messages, count, NULL));
        for (int from = 0; from < world; from++)
            for (int i = 0; from != rank && i < EACH; i++)
                check(in + (from * EACH + i) * MOST, sizes[i], from, rank, i);
    }
    free(out);
    free(in);
    yk_group_destroy(group);
}

/* Rank 0 lists rank 2 first, which waits for rank 1, which waits for rank 0. */
static void check_chain(yk_group *group, int rank, bool rank_0_sends, size_t count)
{
    unsigned char *data[2] = {malloc(count), malloc(count)};
    yk_message both[2];
    for (int i = 0; i < 2; i++) {
        int peer = 2 - i;
        if (rank_0_sends)
            fill(data[i], count, 0, peer, 7);
        both[i] = rank_0_sends ? send_to(peer, data[i], count, YK_U8)
                               : receive_from(peer, data[i], count, YK_U8);
    }
    if (rank == 0) {
        assert_ok(yk_batch_send_recv(group, both, 2, NULL));
        for (int i = 0; i < 2 && !rank_0_sends; i++)
            check(data[i], count, 2 - i, 0, 7);
    } else {
        for (int turn = 0; turn < 2; turn++)
            if ((turn == 0) == (rank == 1)) {
                fill(data[0], count, rank, 0, 7);
                if (!rank_0_sends)
                    assert_ok(yk_send(group, data[0], count, YK_U8, 0));
                else
                    assert_ok(yk_recv(group, data[0], count, YK_U8, 0));
                if (rank_0_sends)
                    check(data[0], count, 0, rank, 7);
            } else {
                assert_ok(rank == 1 ? yk_send(group, data[1], count, YK_U8, 3 - rank)
                                    : yk_recv(group, data[1], count, YK_U8, 3 - rank));
            }
    }
    free(data[0]);
    free(data[1]);
}

YK_TEST_RANKS(no_message_waits_for_another, 3)
{
    (void)world;
    yk_group *group = join();
    for (int sends = 0; sends < 2; sends++) {
        check_chain(group, rank, sends, 100);
        check_chain(group, rank, sends, 1 << 20);
    }
    yk_group_destroy(group);
}

/* A batch meets single calls, and batches of other lengths. */
YK_TEST_RANKS(a_batch_meets_single_messages, 2)
{
    (void)world;
    yk_group *group = join();
    int32_t data[6];
    yk_message messages[6];
    for (int i = 0; i < 6; i++) {
        data[i] = rank == 0 ? i : -1;
        messages[i] =
            rank == 0 ? send_to(1, &data[i], 1, YK_I32) : receive_from(0, &data[i], 1, YK_I32);
    }
    if (rank == 0) {
        assert_ok(yk_batch_send_recv(group, messages, 6, NULL));
    } else {
        assert_ok(yk_recv(group, &data[0], 1, YK_I32, 0));
        assert_ok(yk_batch_send_recv(group, messages + 1, 3, NULL));
        assert_ok(yk_batch_send_recv(group, messages + 4, 1, NULL));
        assert_ok(yk_recv(group, &data[5], 1, YK_I32, 0));
    }
    for (int i = 0; i < 6; i++)
        assert_int_equal(data[i], i);
    yk_group_destroy(group);
}

/* More messages from one rank to another than any backend has under way at once; of some, the ranks
 * differ. All others arrive. */
YK_TEST_RANKS(long_batches, 2)
{
    enum { MANY = 300, MOST = 40 };
    static int32_t out[MANY][MOST], in[MANY][MOST];
    static yk_message messages[2 * MANY];
    yk_group *group = join();
    for (int wrong = -1; wrong < MANY; wrong += MANY / 2) { /* none, one of the first half, ... */
        for (int i = 0; i < MANY; i++) {
            size_t size = (size_t)i % MOST;
            memset(in[i], 0xff, sizeof in[i]);
            for (int k = 0; k < MOST; k++)
                out[i][k] = 100 * i + 10000000 * rank + k;
            messages[2 * i] = send_to(1 - rank, out[i], size, YK_I32);
            messages[2 * i + 1] = receive_from(1 - rank, in[i], size + (i == wrong), YK_I32);
        }
        yk_status status = yk_batch_send_recv(group, messages, 2 * MANY, NULL);
        assert_status(wrong < 0 ? YK_OK : YK_ERROR_MISMATCH, status);
        for (int i = 0; i < MANY; i++)
            for (int k = 0; k < MOST; k++)
                assert_int_equal(in[i][k], k < i % MOST && i != wrong
                                               ? 100 * i + 10000000 * (1 - rank) + k
                                               : -1);
    }
    assert_ok(yk_barrier(group));
    yk_group_destroy(group);
}

/* Works among collectives. */
YK_TEST_RANKS(many_batches_in_flight, 3)
{
    enum { WORKS = 24, COUNT = 3000 };
    static int32_t out[WORKS][COUNT], in[WORKS][COUNT], sums[WORKS];
    yk_group *group = join();
    yk_work *works[WORKS], *others[WORKS];
    int next = (rank + 1) % world, previous = (rank + world - 1) % world;
    for (int w = 0; w < WORKS; w++) {
        for (int i = 0; i < COUNT; i++)
            out[w][i] = 1000 * w + 100 * rank + i;
        yk_message messages[] = {send_to(next, out[w], COUNT, YK_I32),
                                 receive_from(previous, in[w], COUNT, YK_I32)};
        assert_ok(yk_batch_send_recv(group, messages, 2, &works[w]));
        memset(messages, 0xff, sizeof messages); /* it was copied */
        sums[w] = rank + w;
        assert_ok(yk_all_reduce(group, &sums[w], 1, YK_I32, YK_REDUCE_SUM, &others[w]));
    }
    for (int w = WORKS - 1; w >= 0; w--) {
        assert_ok(yk_work_wait(others[w]));
        assert_ok(yk_work_wait(works[w]));
        assert_int_equal(sums[w], 3 + 3 * w);
        for (int i = 0; i < COUNT; i++)
            assert_int_equal(in[w][i], 1000 * w + 100 * previous + i);
    }
    yk_group_destroy(group);
}

/* Ranks are those of the part; the whole group is used meanwhile. */
YK_TEST_RANKS(batches_of_parts, 4)
{
    (void)world;
    yk_group *group = join(), *part;
    yk_work *work;
    assert_ok(yk_group_split(&part, group, rank % 2, -rank)); /* (2, 0) and (3, 1) */
    int me = yk_group_rank(part), mine = 10 * rank, theirs[2] = {-1, -1};
    yk_message in_part[] = {send_to(1 - me, &mine, 1, YK_I32),
                            receive_from(1 - me, &theirs[0], 1, YK_I32)};
    yk_message in_whole[] = {receive_from(rank ^ 1, &theirs[1], 1, YK_I32),
                             send_to(rank ^ 1, &mine, 1, YK_I32)};
    assert_ok(yk_batch_send_recv(part, in_part, 2, &work));
    assert_ok(yk_batch_send_recv(group, in_whole, 2, NULL));
    assert_ok(yk_work_wait(work));
    assert_int_equal(theirs[0], 10 * (rank ^ 2));
    assert_int_equal(theirs[1], 10 * (rank ^ 1));
    yk_group_destroy(part);
    yk_group_destroy(group);
}

/* A rank that nobody needs any more may leave. */
YK_TEST_RANKS(batches_after_another_rank_has_left, 3)
{
    (void)world;
    yk_group *group = join();
    int32_t mine = rank, theirs = -1;
    yk_message messages[] = {send_to(1 - rank, &mine, 1, YK_I32),
                             receive_from(1 - rank, &theirs, 1, YK_I32)};
    assert_ok(yk_barrier(group));
    for (int i = 0; rank < 2 && i < 200; i++) {
        theirs = -1;
        assert_ok(yk_batch_send_recv(group, messages, 2, NULL));
        assert_int_equal(theirs, 1 - rank);
    }
    yk_group_destroy(group);
}

/* ---- mistakes -------------------------------------------------------------------------------- */

YK_TEST_RANKS(promise_06_one_message_of_a_batch_does_not_match, 3)
{
    yk_group *group = join();
    int next = (rank + 1) % world, previous = (rank + world - 1) % world;
    for (int round = 0; round < 3; round++) {
        float out[8] = {(float)rank}, in[3][8] = {{-1}, {-1}, {-1}};
        size_t wanted = rank == 1 ? 5 : 4;
        yk_dtype dtype = round == 2 && rank == 1 ? YK_I32 : YK_F32;
        yk_message messages[] = {
            send_to(next, out, 1, YK_F32),
            send_to(next, out, 4, YK_F32),
            receive_from(previous, in[0], 1, YK_F32),
            receive_from(previous, in[1], round == 2 ? 4 : wanted, dtype),
            receive_from(next, in[2], 2, YK_F32),
            send_to(previous, out, 2, YK_F32),
        };
        yk_work *work = NULL;
        yk_status status = yk_batch_send_recv(group, messages, 6, round == 1 ? &work : NULL);
        if (work)
            status = yk_work_wait(work);
        assert_int_equal(status, rank == 2 ? YK_OK : YK_ERROR_MISMATCH);
        if (rank != 2) {
            assert_contains(yk_last_error(), "batch_send_recv(6 messages), operation ");
            assert_contains(yk_last_error(),
                            round == 2 ? "disagree in dtype" : "disagree in count");
            assert_contains(yk_last_error(), "rank 0 called send(float32 x 4, to rank 1)");
            assert_contains(yk_last_error(), round == 2
                                                 ? "rank 1 called recv(int32 x 4, from rank 0)"
                                                 : "rank 1 called recv(float32 x 5, from rank 0)");
        }
        assert_true(in[0][0] == (float)previous && in[2][0] == (float)next);
        assert_true(in[1][0] == (float)(rank == 1 ? -1 : previous));
    }
    assert_ok(yk_barrier(group));
    yk_group_destroy(group);
}

YK_TEST_RANKS(refused_messages, 2)
{
    yk_group *group = join();
    float x = 1, y = 0;
    yk_work *work = (yk_work *)&x;
    yk_message messages[] = {send_to(1 - rank, &x, 1, YK_F32),
                             receive_from(1 - rank, &y, 1, YK_F32)};
    yk_message wrong[] = {messages[0], messages[1]};
    wrong[1].peer = rank;
    assert_status(YK_ERROR_INVALID_ARGUMENT, yk_batch_send_recv(group, wrong, 2, &work));
    assert_contains(yk_last_error(), "batch_send_recv, message 1: rank ");
    assert_null(work);
    wrong[1].peer = world;
    assert_status(YK_ERROR_INVALID_ARGUMENT, yk_batch_send_recv(group, wrong, 2, NULL));
    wrong[1] = messages[1];
    wrong[1].data = NULL;
    assert_status(YK_ERROR_INVALID_ARGUMENT, yk_batch_send_recv(group, wrong, 2, NULL));
    wrong[1] = messages[1];
    wrong[1].kind = (yk_message_kind)2;
    assert_status(YK_ERROR_INVALID_ARGUMENT, yk_batch_send_recv(group, wrong, 2, NULL));
    assert_contains(yk_last_error(), "unknown kind 2");
    wrong[1] = messages[1];
    wrong[1].dtype = (yk_dtype)77;
    assert_status(YK_ERROR_INVALID_ARGUMENT, yk_batch_send_recv(group, wrong, 2, NULL));
    assert_status(YK_ERROR_INVALID_ARGUMENT, yk_batch_send_recv(group, NULL, 2, NULL));
    assert_status(YK_ERROR_INVALID_ARGUMENT, yk_batch_send_recv(NULL, messages, 2, NULL));
    assert_ok(yk_batch_send_recv(group, NULL, 0, NULL));
    assert_ok(yk_batch_send_recv(group, NULL, 0, &work));
    assert_ok(yk_work_wait(work));
    assert_ok(yk_batch_send_recv(group, messages, 2, NULL));
    assert_true(y == 1);
    yk_group_destroy(group);
}

YK_TEST(messages_of_one_rank_are_refused)
{
    yk_group *group = join();
    float x = 1;
    yk_message message = send_to(0, &x, 1, YK_F32);
    assert_status(YK_ERROR_INVALID_ARGUMENT, yk_batch_send_recv(group, &message, 1, NULL));
    assert_contains(yk_last_error(), "rank 0 is not a peer of rank 0 of 1");
    assert_ok(yk_batch_send_recv(group, NULL, 0, NULL));
    yk_group_destroy(group);
}
