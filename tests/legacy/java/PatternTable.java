import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.regex.Pattern;

/**
 * What a real java.util.regex makes of expressions: arguments are topics' names; each line read is an expression as hexadecimal UTF-16; each line
 * written is a string of 0 and 1, one for each name that String.matches would be asked for, "refused" where it does not compile, or "slow" where
 * it looks at more characters than anybody would wait for, "broken" where a defect of Java's own ends it.
 */
public final class PatternTable {
    static final int LOOKS_MAX = 2_000_000;

    static final class Slow extends RuntimeException {
    }

    static final class Counted implements CharSequence {
        final String text;
        int looks;

        Counted(String text) {
            this.text = text;
        }

        public char charAt(int at) {
            if (++looks > LOOKS_MAX) {
                throw new Slow();
            }
            return text.charAt(at);
        }

        public int length() {
            return text.length();
        }

        public CharSequence subSequence(int from, int to) {
            return text.substring(from, to);
        }

        @Override
        public String toString() {
            return text;
        }
    }

    public static void main(String[] names) throws Exception {
        System.out.println(System.getProperty("java.version"));
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.US_ASCII));
        List<String> answers = new ArrayList<>();
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            StringBuilder regex = new StringBuilder();
            for (int at = 0; at + 4 <= line.length(); at += 4) {
                regex.append((char) Integer.parseInt(line.substring(at, at + 4), 16));
            }
            answers.add(answer(regex.toString(), names));
        }
        for (String answer : answers) {
            System.out.println(answer);
        }
    }

    static String answer(String regex, String[] names) {
        Pattern pattern;
        try {
            pattern = Pattern.compile(regex);
        } catch (IllegalArgumentException refused) {
            return "refused";
        }
        StringBuilder found = new StringBuilder();
        try {
            for (String name : names) {
                found.append(pattern.matcher(new Counted(name)).matches() ? '1' : '0');
            }
        } catch (Slow | StackOverflowError slow) {
            return "slow";
        } catch (RuntimeException broken) {
            return "broken";
        }
        return found.toString();
    }
}
