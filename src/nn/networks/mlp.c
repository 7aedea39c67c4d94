/*
 * A multi-layer perceptron with one hidden layer: small enough for tests and first runs, and the
 * shortest example of a network in this library.
 */
#include <yoke/networks.h>
#include <yoke/nn.h>

enum { HIDDEN = 256 };

yk_value *yk_mlp(yk_value *images, int64_t classes)
{
    yk_value *x = yk_flatten(images);            /* (N, C * H * W) */
    x = yk_relu(yk_nn_linear(x, "fc1", HIDDEN)); /* (N, 256) */
    return yk_nn_linear(x, "fc2", classes);      /* (N, classes) */
}
