# Completion of infinirl for bash: source <(infinirl completion bash)

_infinirl() {
    # bash breaks words at =, which stands in --flag=value and KEY=VALUE: put them together.
    local words=() word glue=
    for word in "${COMP_WORDS[@]:1:COMP_CWORD}"; do
        if [[ ${#words[@]} -gt 0 && ($word == "=" || $glue) ]]; then
            words[${#words[@]} - 1]+=$word
            [[ $word == "=" ]] && glue=1 || glue=
        else
            words+=("$word")
        fi
    done
    local last=${words[${#words[@]} - 1]} line files=
    local before=
    [[ $last == *=* && $COMP_WORDBREAKS == *=* ]] && before=${last%"${last##*=}"}
    COMPREPLY=()
    while IFS= read -r line; do
        if [[ $line == ":files" ]]; then
            files=1
        else
            line=${line%%$'\t'*}
            COMPREPLY+=("${line#"$before"}")
        fi
    done < <("${COMP_WORDS[0]}" __complete "${words[@]}" 2>/dev/null)
    if [[ ${#COMPREPLY[@]} -eq 1 && ${COMPREPLY[0]} == *= ]]; then
        compopt -o nospace 2>/dev/null
    fi
    if [[ $files ]]; then
        compopt -o filenames 2>/dev/null
        while IFS= read -r line; do
            COMPREPLY+=("$line")
        done < <(compgen -f -- "${last#"$before"}")
    fi
}

complete -F _infinirl infinirl
