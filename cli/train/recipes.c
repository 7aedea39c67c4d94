/*
 * Recipes: options under a name. They are parsed as if they had been given before those of the
 * command line, which therefore take precedence, and stored in checkpoints as any other option.
 */
#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "options/options.h"
#include "train/train.h"

typedef struct recipe {
    const char *name, *purpose, *options;
} recipe;

#define AIRBENCH_DATA(padding)                                                                     \
    "--augment RandomCrop(32,padding=" padding ",padding_mode=reflect),AlternatingHorizontalFlip," \
    "Normalize((0.4914,0.4822,0.4465),(0.2470,0.2435,0.2616))"
#define AIRBENCH_COMMON                                                                            \
    " --drop-last --whiten whiten.weight --loss-reduction sum --label-smoothing 0.2 "              \
    "--independent-decay --tta translate "

/* After Jordan, "94% on CIFAR-10 in 3.29 Seconds on a Single GPU" (2024), whose rates are for sums
 * over the batch. */
static const recipe recipes[] = {
    {"airbench94", "94 % on CIFAR-10 in 9.9 epochs of a small network: SGD with Lookahead",
     "--arch airbench94 --batch-size 1024 --epochs 9.9 " AIRBENCH_DATA("2") AIRBENCH_COMMON
     "--optimizer sgd --lr 1.46484e-3 --momentum 0.85 --nesterov --weight-decay 1.99565e-3 "
     "--lr-group *.norm?.bias=0.09375,whiten.bias=1.46484e-3:3 "
     "--schedule triangle --pct-start 0.23 --start-factor 0.2 --end-factor 0.07 "
     "--lookahead 0.77378 --lookahead-steps 5 --lookahead-power 3"},
    {"airbench94-muon", "94 % on CIFAR-10 in 8 epochs of the same network: Muon and SGD",
     "--arch airbench94 --batch-size 2000 --epochs 8 " AIRBENCH_DATA("2") AIRBENCH_COMMON
     "--optimizer muon --muon-lr 0.24 --muon-momentum 0.6 --muon-steps 3 --muon-normalize "
     "--lr 8.28094e-4 --momentum 0.85 --nesterov --weight-decay 4e-3 "
     "--lr-group *.norm?.bias=0.053,whiten.bias=0.053:3 "
     "--schedule triangle --pct-start 0 --end-factor 0"},
    {"airbench96", "96 % on CIFAR-10 in 45 epochs of a larger network",
     "--arch airbench96 --batch-size 1024 --epochs 45 " AIRBENCH_DATA(
         "4") ",RandomErasing(1,scale=(0.140625,0.140625),ratio=(1,1))" AIRBENCH_COMMON
              "--optimizer sgd --lr 1.14640e-3 --momentum 0.85 --nesterov --weight-decay "
              "1.56522e-3 "
              "--lr-group *.norm?.bias=0.0733696,whiten.bias=1.14640e-3:3 "
              "--schedule triangle --pct-start 0.23 --start-factor 0.2 --end-factor 0.07 "
              "--lookahead 0.77378 --lookahead-steps 5 --lookahead-power 3"},
    {"resnet18-94", "16 epochs of ResNet-18 on CIFAR-10, towards 94 %",
     "--arch resnet18-cifar --batch-size 512 --epochs 16 --drop-last "
     "--augment RandomCrop(32,padding=4,padding_mode=reflect),AlternatingHorizontalFlip,"
     "Normalize(cifar10) --optimizer sgd --lr 0.4 --momentum 0.9 --nesterov --weight-decay 5e-4 "
     "--no-decay-norms --label-smoothing 0.1 --schedule triangle --pct-start 0.25 "
     "--start-factor 0.05 --end-factor 0 --tta mirror"},
};

enum { RECIPES = sizeof recipes / sizeof *recipes };

void cli_print_transforms(FILE *out, const char *text, size_t length)
{
    int depth = 0;
    for (size_t i = 0; i < length; i++) {
        depth += (text[i] == '(') - (text[i] == ')');
        putc(text[i], out);
        if (text[i] == ',' && depth == 0 && i + 1 < length && isupper((unsigned char)text[i + 1]))
            putc(' ', out);
    }
}

/* As they are given to a shell. */
static void print_words(FILE *out, const char *text, size_t length)
{
    fwrite(text, 1, length, out);
}

/* Prints one option per line, with two spaces before it. */
static void print_options(FILE *out, const char *options,
                          void (*print)(FILE *out, const char *text, size_t length))
{
    for (const char *at = options; *at;) {
        const char *next = strstr(at + 1, " --");
        size_t length = next ? (size_t)(next - at) : strlen(at);
        fputs("  ", out);
        print(out, at, length);
        putc('\n', out);
        at += length + (next != NULL);
    }
}

static const recipe *find(const char *name)
{
    for (int i = 0; i < RECIPES; i++)
        if (strcmp(recipes[i].name, name) == 0)
            return &recipes[i];
    return NULL;
}

void cli_recipes_list(void)
{
    for (int i = 0; i < RECIPES; i++) {
        printf("%s%s: %s\n", i ? "\n" : "", recipes[i].name, recipes[i].purpose);
        print_options(stdout, recipes[i].options, print_words);
    }
}

bool cli_recipe_check(const char *command, const char *name)
{
    char names[256] = "";
    if (find(name))
        return true;
    for (int i = 0; i < RECIPES; i++) {
        size_t used = strlen(names);
        snprintf(names + used, sizeof names - used, "%s%s", i ? ", " : "", recipes[i].name);
    }
    cli_usage_error(command,
                    "--recipe %s: expected one of %s; `yoke train --recipe list` prints "
                    "their options",
                    name, names);
    return false;
}

int cli_recipe_words(const char *name, char **words, int most)
{
    static char text[2048]; /* the words point into it */
    int count = 0;
    snprintf(text, sizeof text, "%s", find(name)->options);
    for (char *word = strtok(text, " "); word && count < most; word = strtok(NULL, " "))
        words[count++] = word;
    return count;
}

void cli_recipe_print(FILE *out, const char *name)
{
    const recipe *found = find(name);
    fprintf(out, "Recipe %s: %s\n", name, found->purpose);
    print_options(out, found->options, cli_print_transforms);
}
