/* See shapes.h. Only sqrtf and floorf are needed: the same on every machine. */
#include "data/sources/shapes.h"

#include <math.h>

static float smaller(float a, float b)
{
    return a < b ? a : b;
}

static float larger(float a, float b)
{
    return a > b ? a : b;
}

static float clamp(float x, float low, float high)
{
    return x < low ? low : x > high ? high : x;
}

static float length(float x, float y)
{
    return sqrtf(x * x + y * y);
}

static float box(float x, float y, float half_width, float half_height)
{
    float dx = fabsf(x) - half_width, dy = fabsf(y) - half_height;
    return length(larger(dx, 0), larger(dy, 0)) + smaller(larger(dx, dy), 0);
}

/* ---- figures -------------------------------------------------------------------------------- */

static float disc(float x, float y)
{
    return length(x, y) - 0.9f;
}

static float ring(float x, float y)
{
    return fabsf(length(x, y) - 0.76f) - 0.2f;
}

static float square(float x, float y)
{
    return box(x, y, 0.78f, 0.78f);
}

/* Equilateral, one corner up. */
static float triangle(float x, float y)
{
    const float k = 1.7320508f, side = 0.95f; /* sqrt(3); half the side */
    x = fabsf(x) - side;
    y = -y + side / k;
    if (x + k * y > 0) {
        float folded = (x - k * y) / 2;
        y = (-k * x - y) / 2;
        x = folded;
    }
    x -= clamp(x, -2 * side, 0);
    return y < 0 ? length(x, y) : -length(x, y);
}

/* Five points; the plane is folded along the star's axes of symmetry onto one edge. */
static float star(float x, float y)
{
    const float k1x = 0.809016994f, k1y = -0.587785252f, outer = 1.05f, inner = 0.45f;
    x = fabsf(x);
    y = -y;
    float fold = 2 * larger(k1x * x + k1y * y, 0);
    x -= fold * k1x;
    y -= fold * k1y;
    fold = 2 * larger(-k1x * x + k1y * y, 0);
    x += fold * k1x;
    y -= fold * k1y;
    x = fabsf(x);
    y -= outer;
    float ex = inner * -k1y, ey = inner * k1x - 1;
    float h = clamp((x * ex + y * ey) / (ex * ex + ey * ey), 0, outer);
    float d = length(x - ex * h, y - ey * h);
    return y * ex - x * ey > 0 ? d : -d;
}

static float cross(float x, float y)
{
    return smaller(box(x, y, 0.95f, 0.3f), box(x, y, 0.3f, 0.95f));
}

static float crescent(float x, float y)
{
    return larger(length(x, y) - 0.95f, 0.78f - length(x - 0.48f, y));
}

/* ---- textures ------------------------------------------------------------------------------- */

/* Distance to the nearest edge of bands of width 1/2. */
static float bands(float x)
{
    return fabsf(x - floorf(x) - 0.5f) - 0.25f;
}

static float stripes(float x, float y)
{
    (void)y;
    return bands(x);
}

static float checkerboard(float x, float y)
{
    float a = bands(x), b = bands(y);
    float d = smaller(fabsf(a), fabsf(b));
    return (a < 0) == (b < 0) ? -d : d;
}

static float dots(float x, float y)
{
    return length(x - floorf(x) - 0.5f, y - floorf(y) - 0.5f) - 0.29f;
}

const yki_shape yki_shapes[10] = {
    {disc, false},  {ring, false},     {square, false}, {triangle, false},    {star, false},
    {cross, false}, {crescent, false}, {stripes, true}, {checkerboard, true}, {dots, true},
};

const char *const yki_shape_names[10] = {"disc",  "ring",     "square",  "triangle",     "star",
                                         "cross", "crescent", "stripes", "checkerboard", "dots"};
