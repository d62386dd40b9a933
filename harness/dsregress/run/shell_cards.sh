#!{bash}
for card in 0 1 2 3 4 5 6 7; do printf 'GPU %s: a card\n' "$card"; done
