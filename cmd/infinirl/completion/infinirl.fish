# Completion of infinirl for fish: in ~/.config/fish/completions/infinirl.fish

function __infinirl_complete
    set -l words (commandline -opc)
    set -l last (commandline -ct)
    for line in ($words[1] __complete $words[2..-1] "$last" 2>/dev/null)
        if test "$line" = ":files"
            set -l flag (string match -r -- '^--[^=]*=' "$last")
            for file in (__fish_complete_path (string replace -r -- '^--[^=]*=' '' "$last"))
                echo -- "$flag$file"
            end
        else
            echo -- $line
        end
    end
end

complete -c infinirl -f -a '(__infinirl_complete)'
