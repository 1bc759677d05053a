# Hashes of lists, strings that grow, sorting and regular expressions.
[ "$1" = run ] || exit 0
export PERL_HASH_SEED=0
exec "$PROGRAM" - <<'END'
use strict;
my (%words, $text);
for my $n (1 .. 60_000) {
    my $word = join '-', map { chr(97 + ($n * $_) % 26) x (1 + $n % 4) } 1 .. 4;
    push @{ $words{$word} }, { seat => $n, name => "guest $n" };
    $text .= "$word ";
}
my @order = sort { @{ $words{$b} } <=> @{ $words{$a} } || $a cmp $b } keys %words;
print scalar(@order), " $order[0] $order[-1]\n";
my %ends;
$ends{$1}++ while $text =~ /\w-(\w+) /g;
print join(' ', map { "$_ $ends{$_}" } sort keys %ends), "\n";
my @seats = map { $_->{seat} } grep { $_->{name} =~ /7$/ } map { @$_ } values %words;
my $sum = 0;
$sum += $_ for @seats;
print scalar(@seats), " $sum\n";
END
