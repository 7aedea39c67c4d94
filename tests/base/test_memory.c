/* Arrays that grow. */
#include "harness.h"

#include <stdint.h>
#include <stdlib.h>

#include "base/memory.h"

YK_TEST(an_array_keeps_its_elements_while_it_grows)
{
    int *numbers = NULL;
    size_t room = 0;
    for (int i = 0; i < 1000; i++) {
        assert_true(yki_grow(&numbers, (size_t)i, &room, sizeof *numbers));
        assert_true(room > (size_t)i);
        numbers[i] = i;
    }
    for (int i = 0; i < 1000; i++)
        assert_int_equal(numbers[i], i);
    assert_true(room < 2048); /* twice what is needed, at the most */
    free(numbers);
}

YK_TEST(an_array_gets_room_for_many_elements_at_once)
{
    int *numbers = NULL;
    size_t room = 0;
    assert_true(yki_reserve(&numbers, 1000, &room, sizeof *numbers));
    assert_int_equal(room, 1000);
    numbers[999] = 999;
    assert_true(yki_reserve(&numbers, 1001, &room, sizeof *numbers));
    assert_int_equal(room, 2000);
    assert_int_equal(numbers[999], 999);
    free(numbers);
}

YK_TEST(an_array_that_cannot_grow_stays_as_it_is)
{
    char *bytes = NULL;
    size_t room = 0;
    assert_true(yki_reserve(&bytes, 10, &room, 1));
    const char *before = bytes;
    size_t had = room;
    assert_false(yki_reserve(&bytes, SIZE_MAX / 2, &room, 4)); /* more bytes than a size_t holds */
    assert_ptr_equal(bytes, before);
    assert_int_equal(room, had);
    free(bytes);
}

YK_TEST(an_array_with_room_stays_where_it_is)
{
    char *bytes = malloc(4);
    const char *before = bytes;
    size_t room = 4;
    assert_true(yki_grow(&bytes, 3, &room, 1));
    assert_ptr_equal(bytes, before);
    assert_int_equal(room, 4);
    free(bytes);
}
