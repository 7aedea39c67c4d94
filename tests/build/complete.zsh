# Prints what zsh offers at the end of a line: zsh -f complete.zsh FOLDER LINE, where FOLDER has the
# completions. A second zsh runs this file again at a terminal of its own, and gets the line and a
# tab there. The folder above HOME keeps what compinit has found: it reads a thousand files.
if [[ -z $OFFERED ]]; then
    zmodload zsh/zpty || exit
    offered=$(mktemp) || exit
    zpty shell "OFFERED=${(q)offered} zsh -f -i"
    zpty -w shell "source ${(q)0:a} ${(q)1:a}"
    zpty -m -r shell line '*begin*' || exit
    zpty -w -n shell "$2"$'\t'
    while zpty -r shell line; do :; done
    cat $offered
    rm $offered
    exit
fi

PROMPT=
fpath=($1 $fpath)
autoload -Uz compinit
compinit -u -d ${HOME:h}/zcompdump
bindkey '^I' complete-word
zstyle ':completion:*' insert-tab false
comppostfuncs=(exit)
compadd() {
    # Those with -O, -A or -D offer nothing.
    if [[ ${@[1,(i)(-|--)]} != *-(O|A|D)\ * ]]; then
        local -a words
        builtin compadd -A words "$@"
        print -rl -- $words >>$OFFERED
    fi
    builtin compadd "$@"
}
print be''gin
