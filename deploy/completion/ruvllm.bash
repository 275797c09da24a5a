# Completion of ruvllm for bash. Made by scripts/make_completion.py from the program's help: do not edit.

_ruvllm_words() { # command: its options
    case $1 in
    run) echo '-f --file --chat --system --special -n --max-tokens --temp --top-p --top-k --min-p --typical --repeat-penalty --frequency-penalty --presence-penalty --penalty-window --logit-bias --stop -s --seed --json-schema --grammar --regex --logprobs --ignore-eos --json --stats -m --model --template-sha256 --adapter --adapter-weight -c --ctx -b --batch --device --backend --attention --no-mmap --no-repack -t --threads --rope-scaling --rope-scale --rope-freq-base --rope-original-context --yarn-extrapolation --yarn-attention --yarn-beta-fast --yarn-beta-slow -h --help' ;;
    chat) echo '--system --load --json --learn --store -n --max-tokens --temp --top-p --top-k --min-p --typical --repeat-penalty --frequency-penalty --presence-penalty --penalty-window --logit-bias --stop -s --seed --json-schema --grammar --regex --logprobs --ignore-eos -m --model --template-sha256 --adapter --adapter-weight -c --ctx -b --batch --device --backend --attention --no-mmap --no-repack -t --threads --rope-scaling --rope-scale --rope-freq-base --rope-original-context --yarn-extrapolation --yarn-attention --yarn-beta-fast --yarn-beta-slow -h --help' ;;
    serve) echo '-l --listen --tls-cert --tls-key --cors-origin --drain --models-dir --adapters --adapter --adapter-cache --learn --learn-rank --consolidation --speculate --draft --votes-per-minute --kv-bytes --kv-cold --spill-dir --spill-bytes --max-sequences --max-queue --memory-budget --idle-unload --auto --store --witness-days --log-level -c --ctx -b --batch --device --backend --attention --no-mmap --no-repack -t --threads --rope-scaling --rope-scale --rope-freq-base --rope-original-context --yarn-extrapolation --yarn-attention --yarn-beta-fast --yarn-beta-slow -h --help' ;;
    pull) echo '--offline --max-size --json --revision --retries --stall-timeout -q --quiet -h --help' ;;
    list) echo '--json -h --help' ;;
    rm) echo '-y --yes -h --help' ;;
    info) echo '--tensors --metadata --template --load --json -m --model --template-sha256 -c --ctx -b --batch --device --backend --attention --no-mmap --no-repack -t --threads --rope-scaling --rope-scale --rope-freq-base --rope-original-context --yarn-extrapolation --yarn-attention --yarn-beta-fast --yarn-beta-slow -h --help' ;;
    tokenize) echo '-f --file --decode --special --no-bos --chat --ids --json -m --model --template-sha256 -h --help' ;;
    perplexity) echo '-f --file --chunks --bos --json -m --model --template-sha256 --adapter --adapter-weight -c --ctx -b --batch --device --backend --attention --no-mmap --no-repack -t --threads --rope-scaling --rope-scale --rope-freq-base --rope-original-context --yarn-extrapolation --yarn-attention --yarn-beta-fast --yarn-beta-slow -h --help' ;;
    bench) echo '-p --prompt-tokens -n --gen-tokens -r --rounds -t --threads --json -m --model --template-sha256 -c --ctx -b --batch --device --backend --attention --no-mmap --no-repack --rope-scaling --rope-scale --rope-freq-base --rope-original-context --yarn-extrapolation --yarn-attention --yarn-beta-fast --yarn-beta-slow -h --help' ;;
    quantize) echo '-t --threads --pure --allow-requantize --force --tensors --json -h --help' ;;
    adapter) echo '-o --output --format --force --method --density --rank --seed --json -h --help' ;;
    learn) echo '-o --output --anchors --raw --length --held-out --checkpoint --checkpoint-every --force --keep-worse --rank --alpha --modules --epochs --patience --batch-tokens --rate --schedule --decay --kl --kto --beta --seed --memory --tenant --max-forgetting --variants --fresh -n --limit --format --store --json -m --model --template-sha256 -t --threads -h --help' ;;
    push) echo '--private --json --revision --retries --stall-timeout -q --quiet -h --help' ;;
    key) echo '--tenant --name --rpm --share --admin --expires --json --store -h --help' ;;
    witness) echo '--tenant -m --model --since -n --limit --json --store -h --help' ;;
    doctor) echo '--json -m --model --template-sha256 -c --ctx -b --batch --device --backend --attention --no-mmap --no-repack -t --threads --rope-scaling --rope-scale --rope-freq-base --rope-original-context --yarn-extrapolation --yarn-attention --yarn-beta-fast --yarn-beta-slow -h --help' ;;
    version) echo '--json -h --help' ;;
    help) echo '-h --help' ;;
    esac
}

_ruvllm_value() { # command, option: '-' a flag, '@files', '@folders', '@any', or the choices
    case $1:$2 in
    run:-f | run:--file) echo '@files' ;;
    run:--system) echo '@any' ;;
    run:-n | run:--max-tokens) echo '@any' ;;
    run:--temp) echo '@any' ;;
    run:--top-p) echo '@any' ;;
    run:--top-k) echo '@any' ;;
    run:--min-p) echo '@any' ;;
    run:--typical) echo '@any' ;;
    run:--repeat-penalty) echo '@any' ;;
    run:--frequency-penalty) echo '@any' ;;
    run:--presence-penalty) echo '@any' ;;
    run:--penalty-window) echo '@any' ;;
    run:--logit-bias) echo '@any' ;;
    run:--stop) echo '@any' ;;
    run:-s | run:--seed) echo '@any' ;;
    run:--json-schema) echo '@files' ;;
    run:--grammar) echo '@files' ;;
    run:--regex) echo '@any' ;;
    run:--logprobs) echo '@any' ;;
    run:-m | run:--model) echo '@files' ;;
    run:--template-sha256) echo '@any' ;;
    run:--adapter) echo '@files' ;;
    run:--adapter-weight) echo '@any' ;;
    run:-c | run:--ctx) echo '@any' ;;
    run:-b | run:--batch) echo '@any' ;;
    run:--device) echo '@any' ;;
    run:--backend) echo '@any' ;;
    run:--attention) echo '@any' ;;
    run:-t | run:--threads) echo '@any' ;;
    run:--rope-scaling) echo 'model none linear ntk yarn' ;;
    run:--rope-scale) echo '@any' ;;
    run:--rope-freq-base) echo '@any' ;;
    run:--rope-original-context) echo '@any' ;;
    run:--yarn-extrapolation) echo '@any' ;;
    run:--yarn-attention) echo '@any' ;;
    run:--yarn-beta-fast) echo '@any' ;;
    run:--yarn-beta-slow) echo '@any' ;;
    chat:--system) echo '@any' ;;
    chat:--load) echo '@files' ;;
    chat:--store) echo '@files' ;;
    chat:-n | chat:--max-tokens) echo '@any' ;;
    chat:--temp) echo '@any' ;;
    chat:--top-p) echo '@any' ;;
    chat:--top-k) echo '@any' ;;
    chat:--min-p) echo '@any' ;;
    chat:--typical) echo '@any' ;;
    chat:--repeat-penalty) echo '@any' ;;
    chat:--frequency-penalty) echo '@any' ;;
    chat:--presence-penalty) echo '@any' ;;
    chat:--penalty-window) echo '@any' ;;
    chat:--logit-bias) echo '@any' ;;
    chat:--stop) echo '@any' ;;
    chat:-s | chat:--seed) echo '@any' ;;
    chat:--json-schema) echo '@files' ;;
    chat:--grammar) echo '@files' ;;
    chat:--regex) echo '@any' ;;
    chat:--logprobs) echo '@any' ;;
    chat:-m | chat:--model) echo '@files' ;;
    chat:--template-sha256) echo '@any' ;;
    chat:--adapter) echo '@files' ;;
    chat:--adapter-weight) echo '@any' ;;
    chat:-c | chat:--ctx) echo '@any' ;;
    chat:-b | chat:--batch) echo '@any' ;;
    chat:--device) echo '@any' ;;
    chat:--backend) echo '@any' ;;
    chat:--attention) echo '@any' ;;
    chat:-t | chat:--threads) echo '@any' ;;
    chat:--rope-scaling) echo 'model none linear ntk yarn' ;;
    chat:--rope-scale) echo '@any' ;;
    chat:--rope-freq-base) echo '@any' ;;
    chat:--rope-original-context) echo '@any' ;;
    chat:--yarn-extrapolation) echo '@any' ;;
    chat:--yarn-attention) echo '@any' ;;
    chat:--yarn-beta-fast) echo '@any' ;;
    chat:--yarn-beta-slow) echo '@any' ;;
    serve:-l | serve:--listen) echo '@any' ;;
    serve:--tls-cert) echo '@files' ;;
    serve:--tls-key) echo '@files' ;;
    serve:--cors-origin) echo '@any' ;;
    serve:--drain) echo '@any' ;;
    serve:--models-dir) echo '@folders' ;;
    serve:--adapters) echo '@folders' ;;
    serve:--adapter) echo '@any' ;;
    serve:--adapter-cache) echo '@folders' ;;
    serve:--learn-rank) echo '@any' ;;
    serve:--consolidation) echo 'ewc_merge average quality_weighted best_only ensemble' ;;
    serve:--draft) echo '@any' ;;
    serve:--votes-per-minute) echo '@any' ;;
    serve:--kv-bytes) echo '@any' ;;
    serve:--kv-cold) echo 'q4 q8 f16' ;;
    serve:--spill-dir) echo '@folders' ;;
    serve:--spill-bytes) echo '@any' ;;
    serve:--max-sequences) echo '@any' ;;
    serve:--max-queue) echo '@any' ;;
    serve:--memory-budget) echo '@any' ;;
    serve:--idle-unload) echo '@any' ;;
    serve:--store) echo '@files' ;;
    serve:--witness-days) echo '@any' ;;
    serve:--log-level) echo 'debug info warn error off' ;;
    serve:-c | serve:--ctx) echo '@any' ;;
    serve:-b | serve:--batch) echo '@any' ;;
    serve:--device) echo '@any' ;;
    serve:--backend) echo '@any' ;;
    serve:--attention) echo '@any' ;;
    serve:-t | serve:--threads) echo '@any' ;;
    serve:--rope-scaling) echo 'model none linear ntk yarn' ;;
    serve:--rope-scale) echo '@any' ;;
    serve:--rope-freq-base) echo '@any' ;;
    serve:--rope-original-context) echo '@any' ;;
    serve:--yarn-extrapolation) echo '@any' ;;
    serve:--yarn-attention) echo '@any' ;;
    serve:--yarn-beta-fast) echo '@any' ;;
    serve:--yarn-beta-slow) echo '@any' ;;
    pull:--max-size) echo '@any' ;;
    pull:--revision) echo '@any' ;;
    pull:--retries) echo '@any' ;;
    pull:--stall-timeout) echo '@any' ;;
    info:-m | info:--model) echo '@files' ;;
    info:--template-sha256) echo '@any' ;;
    info:-c | info:--ctx) echo '@any' ;;
    info:-b | info:--batch) echo '@any' ;;
    info:--device) echo '@any' ;;
    info:--backend) echo '@any' ;;
    info:--attention) echo '@any' ;;
    info:-t | info:--threads) echo '@any' ;;
    info:--rope-scaling) echo 'model none linear ntk yarn' ;;
    info:--rope-scale) echo '@any' ;;
    info:--rope-freq-base) echo '@any' ;;
    info:--rope-original-context) echo '@any' ;;
    info:--yarn-extrapolation) echo '@any' ;;
    info:--yarn-attention) echo '@any' ;;
    info:--yarn-beta-fast) echo '@any' ;;
    info:--yarn-beta-slow) echo '@any' ;;
    tokenize:-f | tokenize:--file) echo '@files' ;;
    tokenize:-m | tokenize:--model) echo '@files' ;;
    tokenize:--template-sha256) echo '@any' ;;
    perplexity:-f | perplexity:--file) echo '@files' ;;
    perplexity:--chunks) echo '@any' ;;
    perplexity:--bos) echo 'auto force none' ;;
    perplexity:-m | perplexity:--model) echo '@files' ;;
    perplexity:--template-sha256) echo '@any' ;;
    perplexity:--adapter) echo '@files' ;;
    perplexity:--adapter-weight) echo '@any' ;;
    perplexity:-c | perplexity:--ctx) echo '@any' ;;
    perplexity:-b | perplexity:--batch) echo '@any' ;;
    perplexity:--device) echo '@any' ;;
    perplexity:--backend) echo '@any' ;;
    perplexity:--attention) echo '@any' ;;
    perplexity:-t | perplexity:--threads) echo '@any' ;;
    perplexity:--rope-scaling) echo 'model none linear ntk yarn' ;;
    perplexity:--rope-scale) echo '@any' ;;
    perplexity:--rope-freq-base) echo '@any' ;;
    perplexity:--rope-original-context) echo '@any' ;;
    perplexity:--yarn-extrapolation) echo '@any' ;;
    perplexity:--yarn-attention) echo '@any' ;;
    perplexity:--yarn-beta-fast) echo '@any' ;;
    perplexity:--yarn-beta-slow) echo '@any' ;;
    bench:-p | bench:--prompt-tokens) echo '@any' ;;
    bench:-n | bench:--gen-tokens) echo '@any' ;;
    bench:-r | bench:--rounds) echo '@any' ;;
    bench:-t | bench:--threads) echo '@any' ;;
    bench:-m | bench:--model) echo '@files' ;;
    bench:--template-sha256) echo '@any' ;;
    bench:-c | bench:--ctx) echo '@any' ;;
    bench:-b | bench:--batch) echo '@any' ;;
    bench:--device) echo '@any' ;;
    bench:--backend) echo '@any' ;;
    bench:--attention) echo '@any' ;;
    bench:--rope-scaling) echo 'model none linear ntk yarn' ;;
    bench:--rope-scale) echo '@any' ;;
    bench:--rope-freq-base) echo '@any' ;;
    bench:--rope-original-context) echo '@any' ;;
    bench:--yarn-extrapolation) echo '@any' ;;
    bench:--yarn-attention) echo '@any' ;;
    bench:--yarn-beta-fast) echo '@any' ;;
    bench:--yarn-beta-slow) echo '@any' ;;
    quantize:-t | quantize:--threads) echo '@any' ;;
    adapter:-o | adapter:--output) echo '@files' ;;
    adapter:--format) echo 'gguf peft own' ;;
    adapter:--method) echo 'sum average slerp ties dare' ;;
    adapter:--density) echo '@any' ;;
    adapter:--rank) echo '@any' ;;
    adapter:--seed) echo '@any' ;;
    learn:-o | learn:--output) echo '@files' ;;
    learn:--anchors) echo '@files' ;;
    learn:--length) echo '@any' ;;
    learn:--held-out) echo '@any' ;;
    learn:--checkpoint) echo '@files' ;;
    learn:--checkpoint-every) echo '@any' ;;
    learn:--rank) echo '@any' ;;
    learn:--alpha) echo '@any' ;;
    learn:--modules) echo '@any' ;;
    learn:--epochs) echo '@any' ;;
    learn:--patience) echo '@any' ;;
    learn:--batch-tokens) echo '@any' ;;
    learn:--rate) echo '@any' ;;
    learn:--schedule) echo '@any' ;;
    learn:--decay) echo '@any' ;;
    learn:--kl) echo '@any' ;;
    learn:--beta) echo '@any' ;;
    learn:--seed) echo '@any' ;;
    learn:--memory) echo '@any' ;;
    learn:--tenant) echo '@any' ;;
    learn:--max-forgetting) echo '@any' ;;
    learn:--variants) echo '@any' ;;
    learn:-n | learn:--limit) echo '@any' ;;
    learn:--format) echo 'gguf peft own' ;;
    learn:--store) echo '@files' ;;
    learn:-m | learn:--model) echo '@files' ;;
    learn:--template-sha256) echo '@any' ;;
    learn:-t | learn:--threads) echo '@any' ;;
    push:--revision) echo '@any' ;;
    push:--retries) echo '@any' ;;
    push:--stall-timeout) echo '@any' ;;
    key:--tenant) echo '@any' ;;
    key:--name) echo '@any' ;;
    key:--rpm) echo '@any' ;;
    key:--share) echo '@any' ;;
    key:--expires) echo '@any' ;;
    key:--store) echo '@files' ;;
    witness:--tenant) echo '@any' ;;
    witness:-m | witness:--model) echo '@any' ;;
    witness:--since) echo '@any' ;;
    witness:-n | witness:--limit) echo '@any' ;;
    witness:--store) echo '@files' ;;
    doctor:-m | doctor:--model) echo '@files' ;;
    doctor:--template-sha256) echo '@any' ;;
    doctor:-c | doctor:--ctx) echo '@any' ;;
    doctor:-b | doctor:--batch) echo '@any' ;;
    doctor:--device) echo '@any' ;;
    doctor:--backend) echo '@any' ;;
    doctor:--attention) echo '@any' ;;
    doctor:-t | doctor:--threads) echo '@any' ;;
    doctor:--rope-scaling) echo 'model none linear ntk yarn' ;;
    doctor:--rope-scale) echo '@any' ;;
    doctor:--rope-freq-base) echo '@any' ;;
    doctor:--rope-original-context) echo '@any' ;;
    doctor:--yarn-extrapolation) echo '@any' ;;
    doctor:--yarn-attention) echo '@any' ;;
    doctor:--yarn-beta-fast) echo '@any' ;;
    doctor:--yarn-beta-slow) echo '@any' ;;
    *) echo - ;;
    esac
}

_ruvllm_arguments() { # command: words that can stand as its arguments
    case $1 in
    help) echo 'run chat serve pull list rm info tokenize perplexity bench quantize adapter learn push key witness doctor version help' ;;
    key) echo 'create list revoke' ;;
    adapter) echo 'import export merge info list' ;;
    esac
}

_ruvllm()
{
    local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD - 1]} command=${COMP_WORDS[1]} kind
    COMPREPLY=()
    if ((COMP_CWORD == 1)); then
        COMPREPLY=($(compgen -W 'run chat serve pull list rm info tokenize perplexity bench quantize adapter learn push key witness doctor version help --help --version' -- "$word"))
        return
    fi
    # '--name=value' arrives as three words.
    if [[ $word == '=' ]]; then
        word=
    elif [[ $before == '=' ]]; then
        before=${COMP_WORDS[COMP_CWORD - 2]}
    fi
    kind=$(_ruvllm_value "$command" "$before")
    case $kind in
    -) ;;
    @files) COMPREPLY=($(compgen -f -- "$word")) && return ;;
    @folders) COMPREPLY=($(compgen -d -- "$word")) && return ;;
    @any) return ;;
    *) COMPREPLY=($(compgen -W "$kind" -- "$word")) && return ;;
    esac
    if [[ $word == -* ]]; then
        COMPREPLY=($(compgen -W "$(_ruvllm_words "$command")" -- "$word"))
    else
        COMPREPLY=($(compgen -W "$(_ruvllm_arguments "$command")" -- "$word") $(compgen -f -X '!*.gguf' -- "$word")
            $(compgen -d -- "$word"))
    fi
}

complete -o filenames -F _ruvllm ruvllm
