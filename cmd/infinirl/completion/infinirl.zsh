#compdef infinirl
# Completion of infinirl for zsh: source <(infinirl completion zsh), after compinit

_infinirl() {
    local -a open closed
    local line word files
    while IFS= read -r line; do
        if [[ $line == ":files" ]]; then
            files=1
            continue
        fi
        word=${line%%$'\t'*}
        line=${word//:/\\:}:${line#*$'\t'}
        if [[ $word == *= ]]; then
            open+=("${line%:}")
        else
            closed+=("${line%:}")
        fi
    done < <("${words[1]}" __complete "${(@)words[2,CURRENT]}" 2>/dev/null)
    (( $#closed )) && _describe 'infinirl' closed
    (( $#open )) && _describe 'infinirl' open -S ''
    if [[ -n $files ]]; then
        compset -P '--*='
        _files
    fi
}

compdef _infinirl infinirl
