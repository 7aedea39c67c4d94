/* See help.h. */
#include "options/help.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include <yoke/status.h>

#include "commands.h"

/* A line ends before column HELP_WIDTH, so that terminals of 80 columns show it whole. */
enum { HELP_COLUMN = 30, HELP_WIDTH = 80 };

/* ---- text ------------------------------------------------------------------------------------ */

/* A switch that is on by default is shown as the option that turns it off. */
static const char *prefix_of(const cli_option *option)
{
    return option->type == CLI_OPTION_SWITCH && option->on ? "no-" : "";
}

static const char *argument_of(const cli_option *option)
{
    return option->argument ? option->argument : cli_option_choices(option);
}

/* A long list of choices is printed below the option's help. */
static const char *name_of_argument(const cli_option *option)
{
    return option->list_choices ? "NAME" : argument_of(option);
}

/* Words in lines that begin at a column, at which the cursor is. */
typedef struct paragraph {
    int indent, used;
} paragraph;

static void print_word(paragraph *p, const char *word, int length, const char *end)
{
    int width = length + (int)strlen(end);
    if (p->used && p->indent + p->used + 1 + width >= HELP_WIDTH) {
        printf("\n%*s", p->indent, "");
        p->used = 0;
    }
    p->used += printf("%s%.*s%s", p->used ? " " : "", length, word, end);
}

/* The words of text[0 .. size), whose newlines are spaces. */
static void print_words(paragraph *p, const char *text, size_t size)
{
    for (const char *at = text, *end = text + size; at < end;) {
        int length = (int)strcspn(at, " \n");
        if (length > end - at)
            length = (int)(end - at);
        if (length)
            print_word(p, at, length, "");
        at += length + 1;
    }
}

/* Whether two choices begin with the same letters, as resnet18 and resnet50 do. */
static bool same_family(const char *a, const char *b)
{
    for (; *a == *b && isalpha((unsigned char)*a); a++)
        b++;
    return !isalpha((unsigned char)*a) && !isalpha((unsigned char)*b);
}

/* The choice that a list begins with. */
typedef struct choice {
    int length;
    const char *next; /* the list after it */
    bool ends_family; /* no other of its family follows */
} choice;

static choice first_choice(const char *choices)
{
    const int length = (int)strcspn(choices, "|");
    const char *next = choices + length + (choices[length] == '|');
    return (choice){length, next, !same_family(choices, next)};
}

void cli_print_choices(const char *choices, int indent)
{
    paragraph p = {.indent = indent};
    printf("%*s", indent, "");
    for (const char *at = choices; *at;) {
        const choice it = first_choice(at);
        print_word(&p, at, it.length, it.ends_family ? "" : ",");
        if (it.ends_family && *it.next) {
            printf("\n%*s", indent, "");
            p.used = 0;
        }
        at = it.next;
    }
    putchar('\n');
}

/* Paragraphs; lines that are empty or begin with a space stay as they are. */
static void print_text_summary(const char *text)
{
    for (const char *at = text; *at;) {
        const char *end = strchr(at, '\n');
        if (*at != ' ' && *at != '\n')
            for (; end && end[1] != '\n' && end[1] != ' ' && end[1]; end = strchr(end + 1, '\n'))
                ;
        size_t size = end ? (size_t)(end - at) : strlen(at);
        if (*at == ' ')
            fwrite(at, 1, size, stdout);
        else
            print_words(&(paragraph){0}, at, size);
        putchar('\n');
        at += size + (end != NULL);
    }
}

static void print_text_option(const cli_option *option)
{
    if (option->type == CLI_OPTION_GROUP) {
        printf("\n%s:\n", option->name);
        return;
    }
    int length = option->letter ? printf("  -%c, ", option->letter) : printf("      ");
    const char *argument = name_of_argument(option);
    length += printf("--%s%s%s%s", prefix_of(option), option->name, argument ? " " : "",
                     argument ? argument : "");
    if (length >= HELP_COLUMN) {
        putchar('\n');
        length = 0;
    }
    printf("%*s", HELP_COLUMN - length, "");
    print_words(&(paragraph){.indent = HELP_COLUMN}, option->help, strlen(option->help));
    putchar('\n');
    if (option->list_choices)
        cli_print_choices(option->list_choices(), HELP_COLUMN);
}

/* Options before the first group have a heading of their own. */
static bool begins_with_group(const cli_command *command)
{
    return command->option_count && command->options[0].type == CLI_OPTION_GROUP;
}

static void print_text_page(const cli_command *command)
{
    printf("Usage: %s [OPTION...]%s%s\n\n", command->name, *command->operands ? " " : "",
           command->operands);
    print_text_summary(command->summary);
    if (!begins_with_group(command))
        puts("\nOptions:");
    for (size_t i = 0; i < command->option_count; i++)
        print_text_option(&command->options[i]);
    printf("  -h, --help%*sshow this help\n", HELP_COLUMN - 12, "");
    if (command->exit_codes)
        printf("\nExit codes:\n%s\n", command->exit_codes);
    if (command->examples)
        printf("\nExamples:\n%s\n", command->examples);
}

/* ---- manual pages: the man macros of groff --------------------------------------------------- */

/* One character of text; a dash is an ASCII minus, so that options can be copied from the page. */
static void print_man_character(char character)
{
    if (character == '\\')
        fputs("\\e", stdout);
    else if (character == '-')
        fputs("\\-", stdout);
    else
        putchar(character);
}

static void print_man_line(const char *line, size_t length)
{
    if (length && (*line == '.' || *line == '\''))
        fputs("\\&", stdout);
    for (size_t i = 0; i < length; i++)
        print_man_character(line[i]);
    putchar('\n');
}

/* Text in which newlines are spaces. */
static void print_man_flowing(const char *text)
{
    for (const char *at = text; *at; at++)
        print_man_character(*at == '\n' ? ' ' : *at);
    putchar('\n');
}

void cli_print_man_text(const char *text)
{
    bool as_is = false, begun = true; /* begun: a paragraph, which is empty so far */
    for (const char *line = text; *line;) {
        size_t length = strcspn(line, "\n");
        bool indented = *line == ' ';
        if (indented != as_is)
            puts(!indented ? ".fi" : begun ? ".nf" : ".PP\n.nf");
        as_is = indented;
        begun = length == 0;
        if (length)
            print_man_line(line, length);
        else if (line[1])
            puts(".PP");
        line += length + (line[length] == '\n');
    }
    if (as_is)
        puts(".fi");
}

void cli_print_man_title(const char *name, const char *purpose)
{
    printf(".TH \"");
    for (const char *at = name; *at; at++)
        print_man_character(*at == ' ' ? '-' : (char)toupper((unsigned char)*at));
    printf("\" 1 \"\" \"yoke %s\" \"yoke manual\"\n.nh\n.ad l\n.SH NAME\n", yk_version());
    for (const char *at = name; *at; at++)
        print_man_character(*at == ' ' ? '-' : *at);
    printf(" \\- %s\n", purpose);
}

static void print_man_word(const char *word)
{
    for (const char *at = word; *at; at++)
        print_man_character(*at);
}

static void print_man_choices(const char *choices)
{
    puts(".br");
    for (const char *at = choices; *at;) {
        const choice it = first_choice(at);
        for (; at < it.next; at++)
            if (*at != '|')
                print_man_character(*at);
        fputs(!it.ends_family ? ", " : *at ? "\n.br\n" : "\n", stdout);
    }
}

static void print_man_option(const cli_option *option)
{
    if (option->type == CLI_OPTION_GROUP) {
        fputs(".SS ", stdout);
        print_man_flowing(option->name);
        return;
    }
    puts(".TP");
    if (option->letter)
        printf("\\fB\\-%c\\fR, ", option->letter);
    fputs("\\fB\\-\\-", stdout);
    print_man_word(prefix_of(option));
    print_man_word(option->name);
    fputs("\\fR", stdout);
    const char *argument = name_of_argument(option);
    if (argument) {
        fputs(" \\fI", stdout);
        print_man_word(argument);
        fputs("\\fR", stdout);
    }
    putchar('\n');
    print_man_flowing(option->help);
    if (option->list_choices)
        print_man_choices(option->list_choices());
}

static void print_man_page(const cli_command *command)
{
    cli_print_man_title(command->name, cli_command_purpose(command->name));
    printf(".SH SYNOPSIS\n\\fB%s\\fR [\\fIOPTION\\fR...]%s", command->name,
           *command->operands ? " " : "");
    print_man_flowing(command->operands);
    puts(".SH DESCRIPTION");
    cli_print_man_text(command->summary);
    puts(".SH OPTIONS");
    for (size_t i = 0; i < command->option_count; i++)
        print_man_option(&command->options[i]);
    puts(".TP\n\\fB\\-h\\fR, \\fB\\-\\-help\\fR\nprint a help page");
    if (command->exit_codes) {
        puts(".SH EXIT STATUS");
        cli_print_man_text(command->exit_codes);
    }
    if (command->examples) {
        puts(".SH EXAMPLES");
        cli_print_man_text(command->examples);
    }
    puts(".SH SEE ALSO\n.BR yoke (1)");
}

/* ---- the list for completions ---------------------------------------------------------------- */

static void print_field(const char *text)
{
    putchar('\t');
    if (!text || !*text)
        putchar('-');
    for (const char *at = text; at && *at; at++)
        putchar(*at == '\n' || *at == '\t' ? ' ' : *at);
}

static void print_option_list(const cli_command *command)
{
    fputs("operands", stdout);
    print_field(command->operands);
    putchar('\n');
    for (size_t i = 0; i < command->option_count; i++) {
        const cli_option *option = &command->options[i];
        if (option->type == CLI_OPTION_GROUP)
            continue;
        putchar(option->letter ? option->letter : '-');
        printf("\t%s%s", prefix_of(option), option->name);
        print_field(argument_of(option));
        print_field(cli_option_choices(option));
        print_field(option->help);
        putchar('\n');
    }
    puts("h\thelp\t-\t-\tprint a help page");
}

bool cli_print_help(const cli_command *command, const char *format)
{
    if (!format || strcmp(format, "text") == 0)
        print_text_page(command);
    else if (strcmp(format, "man") == 0)
        print_man_page(command);
    else if (strcmp(format, "options") == 0)
        print_option_list(command);
    else
        return false;
    return true;
}
